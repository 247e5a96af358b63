#include "algo/ranks.hpp"
#include "algo/scatter/scatter.hpp"
#include "schedule/builder.hpp"

namespace sennit::algo::scatter {
namespace {

// The root has a lane a receiver, so that a slow one does not hold up the others.
Schedule build(const Shape& shape) {
  const int n = shape.ranks;
  Builder b("direct", {.collective = Collective::kScatter, .ranks = n, .root = shape.root});
  b.copy(b.lane(shape.root, Need::kMove), {input_block(shape.root)}, {output_block(0)});
  for (const int peer : successors(shape.root, n)) {
    const LaneId sender = b.lane(shape.root, Need::kMove);
    const LaneId receiver = b.lane(peer, Need::kMove);
    const int channel = b.single_hop_channel(sender, receiver);
    b.send(sender, {input_block(peer)}, channel);
    b.recv(receiver, channel, {output_block(0)});
  }
  return std::move(b).finish();
}

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  return from == shape.root && to != shape.root ? 1 : 0;
}

std::int64_t rounds(const Shape& shape) { return shape.ranks == 1 ? 0 : 1; }

}  // namespace

Algorithm direct() {
  return {.collective = Collective::kScatter,
          .name = "direct",
          .summary = "the root sends each rank its block",
          .source = "textbook: flat tree",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true};
}

}  // namespace sennit::algo::scatter
