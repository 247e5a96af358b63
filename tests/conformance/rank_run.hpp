// One rank in the cases of the conformance tests: its memory, its call, and what came of it.
#pragma once

#include "conformance_case.hpp"
#include "guarded_memory.hpp"
#include "oracle.hpp"

#include "sennit/sennit.h"

#include <cstddef>
#include <string>

namespace sennit::tests {

// The memory that a rank uses again and again.
struct RankMemory {
  explicit RankMemory(std::size_t capacity) : first(capacity), second(capacity) {}

  GuardedMemory first;   // the output, and the input in place
  GuardedMemory second;  // the input otherwise
};

class RankRun {
 public:
  // Lays out and fills the buffers. `place` decides where in the memory they lie: any number.
  RankRun(const Case& c, int rank, sennit_comm_t comm, RankMemory& memory, std::size_t place);

  [[nodiscard]] const std::byte* send() const { return send_; }
  [[nodiscard]] std::byte* recv() const { return recv_; }

  // The call of the case, by name, with its protocol.
  sennit_status_t run();

  // What is wrong after the call; empty when nothing is.
  [[nodiscard]] std::string defect(const Oracle& oracle) const;

  // Of the output, to be compared between ranks.
  [[nodiscard]] std::size_t output_hash() const;

 private:
  sennit_status_t call(sennit_redop_t op, const sennit_call_options_t& options);
  sennit_status_t shift(const sennit_call_options_t& options);
  [[nodiscard]] bool input_is_whole() const;

  const Case& case_;
  int rank_;
  sennit_comm_t comm_;
  RankMemory& memory_;
  std::size_t element_bytes_;
  bool in_place_;
  std::byte* send_ = nullptr;
  std::byte* recv_ = nullptr;
};

}  // namespace sennit::tests
