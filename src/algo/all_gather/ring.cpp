#include "algo/all_gather/all_gather.hpp"
#include "algo/ranks.hpp"
#include "algo/wiring.hpp"

namespace sennit::algo::all_gather {
namespace {

Schedule build(const Shape& shape) {
  const int n = shape.ranks;
  Builder b("ring", {.collective = Collective::kAllGather, .ranks = n});
  copy_own_blocks(b);
  if (n == 1) {
    return std::move(b).finish();
  }
  const auto lanes = b.lane_on_every_rank(Need::kMove);
  const auto to_next = ring_channels(b, lanes);
  for (const LaneId lane : lanes) {
    const int next = at(to_next, lane.rank);
    const int previous = at(to_next, wrap(lane.rank - 1, n));
    b.send(lane, {input_block(0)}, next);
    for (int hop = 1; hop < n; ++hop) {
      const Block block = output_block(wrap(lane.rank - hop, n));
      b.recv(lane, previous, {block});
      if (hop < n - 1) {
        b.send(lane, {block}, next);
      }
    }
  }
  return std::move(b).finish();
}

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  return blocks_to_successor(shape.ranks - 1, shape.ranks, from, to);
}

std::int64_t rounds(const Shape& shape) { return shape.ranks - 1; }

}  // namespace

Algorithm ring() {
  return {
      .collective = Collective::kAllGather,
      .name = "ring",
      .summary = "each rank passes on what it received: neighbours talk, every link is used once",
      .source = "Thakur, Rabenseifner and Gropp 2005",
      .build = build,
      .refuses = refuses_nothing,
      .blocks_on_link = blocks_on_link,
      .rounds = rounds,
      .in_place = true};
}

}  // namespace sennit::algo::all_gather
