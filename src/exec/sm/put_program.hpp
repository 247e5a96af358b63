// PutProgram: what one rank does in a direct schedule when ranks reach into each other's buffers.
//
//   SENNIT_ASSIGN_OR_RETURN(PutProgram program, compile_put(*strand.schedule, rank));
//   PutCall call = ...;                                    // words
//   bind(program, {count, element_bytes}, buffers, call);  // where everything lies
#pragma once

#include "exec/sm/direct_program.hpp"
#include "exec/sm/put_call.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace sennit::sm {

struct PutProgram {
  DirectProgram own;
  DirectProgram::Blocks target;  // by rank: block of its output where what it is sent belongs
  std::uint32_t passed_on_by = 0;
};

// kUnsupported, saying why, for schedules that the kernel cannot run as they stand.
Result<PutProgram> compile_put(const Schedule& schedule, int rank);

struct Elements {
  std::int64_t count = 0;
  std::int64_t bytes = 1;  // of one
};

// As this device sees them; outputs by rank.
struct PutBuffers {
  const std::byte* input = nullptr;
  std::array<std::byte*, kMaxRanks> outputs{};
};

// Fills all but the words of the call.
void bind(const PutProgram& program, Elements elements, const PutBuffers& buffers, PutCall& call);

// In every transfer, source and destination lie alike towards multiples of 16 bytes, when all
// buffers begin at one.
bool lies_alike(const PutProgram& program, Elements elements);

}  // namespace sennit::sm
