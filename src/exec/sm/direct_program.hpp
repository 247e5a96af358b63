// DirectProgram: what one rank does in a direct schedule, read off the schedule itself.
//
//   SENNIT_ASSIGN_OR_RETURN(DirectProgram program, compile_direct(*strand.schedule, rank));
//   DirectCall call = ...;                       // buffers, FIFOs
//   bind(program, count, element_bytes, call);   // ranges and sets of ranks
#pragma once

#include "exec/sm/direct_call.hpp"
#include "schedule/schedule.hpp"

#include <array>
#include <cstdint>

namespace sennit::sm {

struct DirectProgram {
  // Blocks by rank of the other end; -1: none.
  struct Blocks {
    Blocks() { of.fill(-1); }
    std::array<int, kMaxRanks> of;
  };

  Problem problem;
  int rank = 0;
  Blocks push;     // of the input
  Blocks arrive;   // of the output
  Blocks collect;  // of the output
  std::uint32_t arrive_from = 0;
  std::uint32_t forward_to = 0;
  Arrival arrival = Arrival::kStore;
  bool stores_sum = true;    // else it is passed on alone
  bool pushes_once = false;  // of all ranks: to all others or nothing, see BasicDirectCall
  // `own_blocks` blocks of the input, and where in the output they go (or what they become).
  int own_from = -1;
  int own_to = -1;
  int own_blocks = 1;
};

// kUnsupported, saying why, for schedules that the direct kernel cannot run as they stand.
Result<DirectProgram> compile_direct(const Schedule& schedule, int rank);

// Fills the part of `call` that follows from the program and the number of elements. An own block
// that is already where it belongs (in place) is not copied.
void bind(const DirectProgram& program,
          std::int64_t count,
          std::int64_t element_bytes,
          DirectCall& call);

// Every block of every rank gets a packet from every other rank in every round, when the last
// begins at byte `last_block` of its range. Asked once the ranges are bound.
bool hears_all(const DirectCall& call, std::int64_t last_block);

// Bytes of the longest range that any two ranks exchange: equal on all ranks, as the number of
// rounds must be.
std::int64_t longest_range(const Problem& problem, std::int64_t count, std::int64_t element_bytes);

}  // namespace sennit::sm
