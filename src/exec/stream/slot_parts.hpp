// How what goes through slots in host memory is cut, equal on all ranks.
#pragma once

#include "path/host/rings.hpp"

#include <cstdint>

namespace sennit::stream {

struct SlotParts {
  std::int64_t count = 0;  // of the longest block
  std::int64_t bytes = 1;  // of each but the last
};

// Whole slots, or less where there would be too few parts to copy in and out at once.
SlotParts cut_into_slots(std::int64_t longest_bytes, const host::RingShape& ring);

}  // namespace sennit::stream
