#include "exec/stream/staging_sizes.hpp"

#include "base/integers.hpp"

#include <algorithm>

namespace sennit::stream {

std::int64_t longest_range(const Problem& problem, const Portion& portion, const Extent& extent) {
  std::int64_t longest = 0;
  for (int block = 0; block < (problem.blocks_differ() ? problem.cut : 1); ++block) {
    longest = std::max(longest, range_of(problem, portion, extent, block).length);
  }
  return longest;
}

std::int64_t staging_room(const Problem& problem, const Portion& portion, const Extent& extent) {
  return whole_units(longest_range(problem, portion, extent));
}

std::int64_t staging_rounds(const Problem& problem, const Extent& extent, std::int64_t most_bytes) {
  // A round's blocks may be somewhat longer than their share, and have gaps.
  const std::int64_t room = most_bytes / (problem.ranks - 1) - 2 * kPieceUnit;
  return std::max<std::int64_t>(1, ceiling(longest_range(problem, Portion{}, extent), room));
}

}  // namespace sennit::stream
