#include "algo/all_reduce/all_reduce.hpp"
#include "algo/ranks.hpp"
#include "algo/wiring.hpp"

namespace sennit::algo::all_reduce {
namespace {

// One lane: in place the sum overwrites the input, so it must follow the sends.
Schedule build(const Shape& shape) {
  const int n = shape.ranks;
  Builder b("one_shot", {.collective = Collective::kAllReduce, .ranks = n});
  const auto lanes = b.lane_on_every_rank(Need::kReduce);
  const auto channels = pair_channels(b, lanes, lanes);
  for (const LaneId lane : lanes) {
    for (const int peer : successors(lane.rank, n)) {
      b.send(lane, {input_block(0)}, at(at(channels, lane.rank), peer));
    }
    b.step(lane, reduce_in_order(channels, lane.rank, {input_block(0)}, {output_block(0)}));
  }
  return std::move(b).finish();
}

std::int64_t blocks_on_link(const Shape&, int from, int to) {
  return one_block_each_pair(from, to);
}

std::int64_t rounds(const Shape& shape) { return shape.ranks == 1 ? 0 : 1; }

}  // namespace

Algorithm one_shot() {
  return {.collective = Collective::kAllReduce,
          .name = "one_shot",
          .summary =
              "everybody sends its vector to all and sums in rank order: one round, for the "
              "smallest messages",
          .source = "textbook: all-to-all exchange, then a local sum",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true};
}

}  // namespace sennit::algo::all_reduce
