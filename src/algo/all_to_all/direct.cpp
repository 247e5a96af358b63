#include "algo/all_to_all/all_to_all.hpp"
#include "algo/ranks.hpp"
#include "schedule/builder.hpp"

namespace sennit::algo::all_to_all {
namespace {

// A lane for each peer and direction. Round d joins each rank to its d-th successor, so no two
// senders meet at one receiver when an engine runs fewer lanes than there are. In place is refused:
// nothing orders the arrival of output[p] behind the send of input[p].
Schedule build(const Shape& shape) {
  const int n = shape.ranks;
  Builder b("direct", {.collective = Collective::kAllToAll, .ranks = n});
  for (const LaneId lane : b.lane_on_every_rank(Need::kMove)) {
    b.copy(lane, {input_block(lane.rank)}, {output_block(lane.rank)});
  }
  for (int distance = 1; distance < n; ++distance) {
    for (int rank = 0; rank < n; ++rank) {
      const int peer = wrap(rank + distance, n);
      const LaneId sender = b.lane(rank, Need::kMove);
      const LaneId receiver = b.lane(peer, Need::kMove);
      const int channel = b.single_hop_channel(sender, receiver);
      b.send(sender, {input_block(peer)}, channel);
      b.recv(receiver, channel, {output_block(rank)});
    }
  }
  return std::move(b).finish();
}

std::int64_t blocks_on_link(const Shape&, int from, int to) {
  return one_block_each_pair(from, to);
}

std::int64_t rounds(const Shape& shape) { return shape.ranks == 1 ? 0 : 1; }

}  // namespace

Algorithm direct() {
  return {.collective = Collective::kAllToAll,
          .name = "direct",
          .summary = "all pairs at once, each at its own pace",
          .source = "textbook: direct exchange",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = false};
}

}  // namespace sennit::algo::all_to_all
