#include "world/lost_rail.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace sennit {

bool has_lost_rail(const World& world, int rank) {
  const StatusLine& line = world.line(rank);
  if (line.state.load(std::memory_order_acquire) != RankState::kFailed ||
      line.failure_code.load(std::memory_order_acquire) !=
          static_cast<std::uint32_t>(Code::kSystemError)) {
    return false;
  }
  const int blamed = line.blamed.load(std::memory_order_acquire);
  return blamed >= 0 && blamed < world.size() && world.node_of(blamed) != world.node_of(rank);
}

std::optional<int> find_witness_of_lost_rail(const World& world) {
  for (int rank = 0; rank < world.size(); ++rank) {
    if (rank != world.rank() && has_lost_rail(world, rank)) {
      return rank;
    }
  }
  return std::nullopt;
}

// A line names the first rank that is blamed. Here it is of this node, or there is none, so that
// has_lost_rail() holds for those alone that have seen the failure themselves.
Verdict retell_lost_rail(const World& world, int rank) {
  std::vector<int> ends{rank, world.line(rank).blamed.load(std::memory_order_acquire)};
  std::string evidence = fmt::format(
      "the rail from {} to {} has failed: a card, its cable or its switch; both may live",
      world.peers().describe(ends[0]),
      world.peers().describe(ends[1]));
  const int here = world.node_of(world.rank());
  if (world.node_of(ends[1]) == here) {
    std::ranges::reverse(ends);
  } else if (world.node_of(ends[0]) != here) {
    ends.clear();
  }
  return {
      .code = Code::kSystemError, .blamed_ranks = std::move(ends), .evidence = std::move(evidence)};
}

std::optional<Verdict> find_lost_rail(const World& world, const CallView& view) {
  for (int rank = 0; rank < world.size(); ++rank) {
    const bool is_needed = !has_left(world, rank, view) || rank == view.waiting.peer;
    if (rank != world.rank() && is_needed && has_lost_rail(world, rank)) {
      return retell_lost_rail(world, rank);
    }
  }
  return std::nullopt;
}

}  // namespace sennit
