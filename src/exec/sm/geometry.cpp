#include "exec/sm/geometry.hpp"

#include "base/integers.hpp"

#include <algorithm>

namespace sennit::sm {

Geometry geometry_for(std::int64_t longest_bytes,
                      Packets packets,
                      const FifoShape& shape,
                      int block_limit) {
  // One SM stores some 43 GB/s to its peers, so packets go to as many of them as there are.
  const std::int64_t count =
      std::max<std::int64_t>(1, ceiling(longest_bytes, payload_bytes(packets)));
  const std::int64_t limit = std::min(block_limit, shape.blocks(packets));
  const std::int64_t warps = std::min<std::int64_t>(kWarps, ceiling(count, limit));
  const std::int64_t blocks = std::min(limit, ceiling(count, warps));
  const std::int64_t depth =
      std::min<std::int64_t>(shape.depth(packets), ceiling(count, blocks * warps));
  return {.blocks = static_cast<int>(blocks),
          .warps = static_cast<int>(warps),
          .depth = static_cast<int>(depth),
          .rounds = static_cast<int>(ceiling(count, blocks * warps * depth))};
}

}  // namespace sennit::sm
