#include "algo/ranks.hpp"
#include "algo/reduce_scatter/reduce_scatter.hpp"
#include "algo/wiring.hpp"

namespace sennit::algo::reduce_scatter {
namespace {

// Block b starts at rank b + 1 and collects one contribution at each hop, until it is complete at
// its owner. A partial sum is forwarded without being stored, so no scratch is needed.
Schedule build(const Shape& shape) {
  const int n = shape.ranks;
  Builder b("ring", {.collective = Collective::kReduceScatter, .ranks = n});
  const auto lanes = b.lane_on_every_rank(Need::kReduce);
  if (n == 1) {
    b.copy(lanes[0], {input_block(0)}, {output_block(0)});
    return std::move(b).finish();
  }
  const auto to_next = ring_channels(b, lanes);
  for (const LaneId lane : lanes) {
    const int next = at(to_next, lane.rank);
    const int previous = at(to_next, wrap(lane.rank - 1, n));
    b.send(lane, {input_block(wrap(lane.rank - 1, n))}, next);
    for (int hop = 2; hop < n; ++hop) {
      b.step(lane,
             {.kind = StepKind::kRecvReduce,
              .from = {input_block(wrap(lane.rank - hop, n))},
              .in = {previous},
              .out = {next}});
    }
    b.recv_reduce(lane, previous, {input_block(lane.rank)}, {output_block(0)});
  }
  return std::move(b).finish();
}

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  return blocks_to_successor(shape.ranks - 1, shape.ranks, from, to);
}

std::int64_t rounds(const Shape& shape) { return shape.ranks - 1; }

}  // namespace

Algorithm ring() {
  return {.collective = Collective::kReduceScatter,
          .name = "ring",
          .summary = "partial sums travel round a ring until they reach their owner",
          .source = "Patarasuk and Yuan 2009",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true};
}

}  // namespace sennit::algo::reduce_scatter
