#include "algo/gather/gather.hpp"
#include "algo/ranks.hpp"
#include "schedule/builder.hpp"

namespace sennit::algo::gather {
namespace {

// The root has a lane a sender, so that a slow one does not hold up the others.
Schedule build(const Shape& shape) {
  const int n = shape.ranks;
  Builder b("direct", {.collective = Collective::kGather, .ranks = n, .root = shape.root});
  b.copy(b.lane(shape.root, Need::kMove), {input_block(0)}, {output_block(shape.root)});
  for (const int peer : successors(shape.root, n)) {
    const LaneId sender = b.lane(peer, Need::kMove);
    const LaneId receiver = b.lane(shape.root, Need::kMove);
    const int channel = b.single_hop_channel(sender, receiver);
    b.send(sender, {input_block(0)}, channel);
    b.recv(receiver, channel, {output_block(peer)});
  }
  return std::move(b).finish();
}

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  return to == shape.root && from != shape.root ? 1 : 0;
}

std::int64_t rounds(const Shape& shape) { return shape.ranks == 1 ? 0 : 1; }

}  // namespace

Algorithm direct() {
  return {.collective = Collective::kGather,
          .name = "direct",
          .summary = "each rank sends its block to the root",
          .source = "textbook: flat tree",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true};
}

}  // namespace sennit::algo::gather
