#include "algo/multi_rail.hpp"

#include "algo/all_gather/all_gather.hpp"

namespace sennit::algo::all_gather {
namespace {

Schedule build(const Shape& shape) {
  Builder b("multi_rail", {.collective = Collective::kAllGather, .ranks = shape.ranks});
  copy_own_blocks(b);
  const Groups groups(shape);
  add_multi_rail_exchange(
      b,
      groups,
      {.for_node = [](int) { return Blocks{input_block(0)}; },
       .for_member = [](int) { return input_block(0); },
       .landing = [](const RailMessage& m) { return Blocks{output_block(m.source)}; },
       .handed = [](const RailMessage& m, int) { return output_block(m.source); }});
  return std::move(b).finish();
}

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  const Groups groups(shape);
  if (groups.group_of(from) == groups.group_of(to)) {
    return from == to ? 0 : multi_rail_blocks_within(groups, from);
  }
  return groups.counterpart(from, groups.group_of(to)) == to ? 1 : 0;
}

}  // namespace

Algorithm multi_rail() {
  return {.collective = Collective::kAllGather,
          .name = "multi_rail",
          .summary =
              "each rank sends its block to its counterpart in every other group, which hands it "
              "on: all network cards work",
          .source = "Suresh et al. 2022",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = multi_rail_rounds,
          .in_place = true,
          .takes_groups = true};
}

}  // namespace sennit::algo::all_gather
