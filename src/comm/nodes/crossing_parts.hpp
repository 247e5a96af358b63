// The parts in which the host calls of a Crossing are made, so that copies of one part overlap
// with the call of another. Each part has its data in one piece of host memory.
#pragma once

#include "comm/nodes/crossing.hpp"

#include <cstddef>
#include <vector>

namespace sennit {

struct CrossingPart {
  // Between device memory and byte `at` of the part's host memory.
  struct Copy {
    std::byte* device = nullptr;
    std::size_t at = 0;
    std::size_t bytes = 0;
  };
  // With lengths, and without buffers: these begin at the bytes `input_at` and `output_at`.
  struct Call {
    Operation operation;
    bool among_counterparts = false;
    std::size_t input_at = 0;
    std::size_t output_at = 0;
  };

  std::vector<Copy> inputs;
  std::vector<Copy> outputs;
  std::vector<Call> calls;
  std::size_t bytes = 0;
};

// Parts of up to `most_bytes`, as many on all ranks. One part alone may have more: that of calls
// that cannot be cut.
std::vector<CrossingPart> parts_of(const Crossing& crossing, std::size_t most_bytes);

}  // namespace sennit
