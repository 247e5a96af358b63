#include "exec/sm/geometry.hpp"

#include <algorithm>

namespace sennit::sm {
namespace {

constexpr std::int64_t ceiling(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// A block is worth its start once each of its warps has a packet; fewer warps share the schedulers
// of an SM better than many that wait for the same moment.
constexpr std::int64_t kWarpsOfASmallBlock = 8;

}  // namespace

Geometry geometry_for(std::int64_t longest_bytes,
                      Packets packets,
                      const ArenaShape& shape,
                      int block_limit) {
  const std::int64_t count =
      std::max<std::int64_t>(1, ceiling(longest_bytes, payload_bytes(packets)));
  const std::int64_t limit = std::min(block_limit, shape.blocks(packets));
  std::int64_t warps = std::min(count, kWarpsOfASmallBlock);
  std::int64_t blocks = ceiling(count, warps);
  if (blocks > limit) {
    warps = kWarps;
    blocks = std::min(limit, ceiling(count, warps));
  }
  const std::int64_t depth =
      std::min<std::int64_t>(shape.depth(packets), ceiling(count, blocks * warps));
  return {.blocks = static_cast<int>(blocks),
          .warps = static_cast<int>(warps),
          .depth = static_cast<int>(depth),
          .rounds = static_cast<int>(ceiling(count, blocks * warps * depth))};
}

}  // namespace sennit::sm
