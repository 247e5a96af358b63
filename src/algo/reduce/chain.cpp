#include "algo/ranks.hpp"
#include "algo/reduce/reduce.hpp"
#include "schedule/builder.hpp"

namespace sennit::algo::reduce {
namespace {

// The partial sum goes from the root's predecessor down to the root, and each rank adds its own
// vector as it passes.
Schedule build(const Shape& shape) {
  const int n = shape.ranks;
  Builder b("chain", {.collective = Collective::kReduce, .ranks = n, .root = shape.root});
  const auto lanes = b.lane_on_every_rank(Need::kReduce);
  if (n == 1) {
    b.copy(lanes[0], {input_block(0)}, {output_block(0)});
    return std::move(b).finish();
  }
  int from_above = -1;
  for (int v = n - 1; v > 0; --v) {
    const LaneId lane = at(lanes, wrap(shape.root + v, n));
    const int to_below = b.channel(lane, at(lanes, wrap(shape.root + v - 1, n)));
    if (from_above < 0) {
      b.send(lane, {input_block(0)}, to_below);
    } else {
      b.step(lane,
             {.kind = StepKind::kRecvReduce,
              .from = {input_block(0)},
              .in = {from_above},
              .out = {to_below}});
    }
    from_above = to_below;
  }
  b.recv_reduce(at(lanes, shape.root), from_above, {input_block(0)}, {output_block(0)});
  return std::move(b).finish();
}

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  return from == shape.root ? 0 : blocks_to_successor(1, shape.ranks, to, from);
}

std::int64_t rounds(const Shape& shape) { return shape.ranks - 1; }

}  // namespace

Algorithm chain() {
  return {.collective = Collective::kReduce,
          .name = "chain",
          .summary =
              "the sum passes through all ranks, each of which adds its vector; many tiles make it "
              "a pipeline",
          .source = "textbook: pipelined chain",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true};
}

}  // namespace sennit::algo::reduce
