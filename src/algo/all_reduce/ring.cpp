#include "algo/all_reduce/all_reduce.hpp"
#include "algo/ranks.hpp"
#include "algo/wiring.hpp"

namespace sennit::algo::all_reduce {
namespace {

// Block b starts at rank b, collects one contribution at each hop, is complete at rank b - 1, and
// travels round once more. The sums of the first turn stand in output only until fusion forwards
// them without storing them; the second turn overwrites that output in any case.
void add_rank(Builder& b, LaneId lane, int previous, int next) {
  const int n = b.problem().ranks;
  b.send(lane, {input_block(lane.rank)}, next);
  for (int hop = 1; hop < n; ++hop) {
    const int index = wrap(lane.rank - hop, n);
    b.recv_reduce(lane, previous, {input_block(index)}, {output_block(index)});
    b.send(lane, {output_block(index)}, next);
  }
  for (int hop = 0; hop < n - 1; ++hop) {
    const Block block = output_block(wrap(lane.rank - hop, n));
    b.recv(lane, previous, {block});
    if (hop < n - 2) {
      b.send(lane, {block}, next);
    }
  }
}

Schedule build(const Shape& shape) {
  const int n = shape.ranks;
  Builder b("ring", {.collective = Collective::kAllReduce, .ranks = n, .cut = n});
  const auto lanes = b.lane_on_every_rank(Need::kReduce);
  if (n == 1) {
    b.copy(lanes[0], {input_block(0)}, {output_block(0)});
    return std::move(b).finish();
  }
  const auto to_next = ring_channels(b, lanes);
  for (const LaneId lane : lanes) {
    add_rank(b, lane, at(to_next, wrap(lane.rank - 1, n)), at(to_next, lane.rank));
  }
  return std::move(b).finish();
}

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  return blocks_to_successor(std::int64_t{2} * (shape.ranks - 1), shape.ranks, from, to);
}

std::int64_t rounds(const Shape& shape) { return std::int64_t{2} * (shape.ranks - 1); }

}  // namespace

Algorithm ring() {
  return {.collective = Collective::kAllReduce,
          .name = "ring",
          .summary = "reduce-scatter and all-gather round a ring: least bytes on every link",
          .source = "Patarasuk and Yuan 2009",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true};
}

}  // namespace sennit::algo::all_reduce
