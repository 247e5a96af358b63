#include "algo/multi_rail.hpp"

#include "algo/all_to_all/all_to_all.hpp"

#include <algorithm>

namespace sennit::algo::all_to_all {
namespace {

// The most blocks that a rank stages: one a member of its node from each rank that it stands for.
int stage_blocks(const Groups& groups, int ranks) {
  std::int64_t most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const int size = groups.size(groups.group_of(rank));
    const std::int64_t sources = multi_rail_blocks_within(groups, rank) - 1;
    most = std::max(most, size == 1 ? 0 : size * sources);
  }
  return static_cast<int>(most);
}

// A message by rail holds the blocks for all members of the node. The one for its receiver is home;
// the others are staged in scratch, of which one instance is enough: one lane uses it. In place is
// refused: nothing orders the arrival of output[p] behind the send of input[p].
Schedule build(const Shape& shape) {
  Builder b("multi_rail", {.collective = Collective::kAllToAll, .ranks = shape.ranks});
  for (const LaneId lane : b.lane_on_every_rank(Need::kMove)) {
    b.copy(lane, {input_block(lane.rank)}, {output_block(lane.rank)});
  }
  const Groups groups(shape);
  const int staged = stage_blocks(groups, shape.ranks);
  const int stage = staged > 0 ? b.scratch("stage", staged, /*depth=*/1) : -1;
  const auto handed = [&](const RailMessage& m, int member) {
    const int size = groups.size(groups.group_of(m.at));
    return member == m.at ? output_block(m.source)
                          : scratch_block(stage, m.index * size + groups.place_of(member));
  };
  const auto landing = [&](const RailMessage& m) {
    Blocks blocks;
    for (const int member : groups.members(groups.group_of(m.at))) {
      blocks.push_back(handed(m, member));
    }
    return blocks;
  };
  const auto for_node = [&](int node) {
    Blocks blocks;
    std::ranges::transform(groups.members(node), std::back_inserter(blocks), input_block);
    return blocks;
  };
  add_multi_rail_exchange(
      b,
      groups,
      {.for_node = for_node, .for_member = input_block, .landing = landing, .handed = handed});
  return std::move(b).finish();
}

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  const Groups groups(shape);
  const int node = groups.group_of(to);
  if (groups.group_of(from) == node) {
    return from == to ? 0 : multi_rail_blocks_within(groups, from);
  }
  return groups.counterpart(from, node) == to ? groups.size(node) : 0;
}

}  // namespace

Algorithm multi_rail() {
  return {.collective = Collective::kAllToAll,
          .name = "multi_rail",
          .summary =
              "each rank sends what is for another group to its counterpart there, in one message, "
              "which hands it out: all network cards work",
          .source = "Suresh et al. 2022",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = multi_rail_rounds,
          .in_place = false,
          .takes_groups = true};
}

}  // namespace sennit::algo::all_to_all
