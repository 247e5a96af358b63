// Where a strand's part of a block lies in the buffer of a call.
#pragma once

#include "schedule/plan.hpp"

#include <cstdint>

namespace sennit::stream {

struct ByteRange {
  std::int64_t begin = 0;
  std::int64_t length = 0;
};

// What all ranks know of the buffers of a call.
struct Extent {
  std::int64_t count = 0;
  std::int64_t element_bytes = 1;
};

inline ByteRange range_of(const Problem& problem,
                          const Portion& portion,
                          const Extent& extent,
                          int block) {
  const ElementRange whole = block_range(problem, extent.count, extent.element_bytes, block);
  const ElementRange part = portion.of(whole.length, extent.element_bytes);
  return {.begin = (whole.begin + part.begin) * extent.element_bytes,
          .length = part.length * extent.element_bytes};
}

}  // namespace sennit::stream
