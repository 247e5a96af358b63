#include "algo/broadcast/broadcast.hpp"
#include "algo/ranks.hpp"

namespace sennit::algo::broadcast {
namespace {

Schedule build(const Shape& shape) {
  const int n = shape.ranks;
  Builder b("chain", {.collective = Collective::kBroadcast, .ranks = n, .root = shape.root});
  copy_at_root(b);
  if (n == 1) {
    return std::move(b).finish();
  }
  const auto lanes = b.lane_on_every_rank(Need::kMove);
  for (int hop = 0; hop < n - 1; ++hop) {
    const LaneId sender = at(lanes, wrap(shape.root + hop, n));
    const LaneId receiver = at(lanes, wrap(shape.root + hop + 1, n));
    const int channel = b.channel(sender, receiver);
    b.send(sender, {hop == 0 ? input_block(0) : output_block(0)}, channel);
    b.recv(receiver, channel, {output_block(0)});
  }
  return std::move(b).finish();
}

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  return to == shape.root ? 0 : blocks_to_successor(1, shape.ranks, from, to);
}

std::int64_t rounds(const Shape& shape) { return shape.ranks - 1; }

}  // namespace

Algorithm chain() {
  return {.collective = Collective::kBroadcast,
          .name = "chain",
          .summary = "each rank passes the vector on to the next; many tiles make it a pipeline",
          .source = "Awan et al. 2018 (pipelined chain)",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true};
}

}  // namespace sennit::algo::broadcast
