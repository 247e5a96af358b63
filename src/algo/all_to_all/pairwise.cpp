#include "algo/all_to_all/all_to_all.hpp"
#include "algo/ranks.hpp"
#include "schedule/builder.hpp"

namespace sennit::algo::all_to_all {
namespace {

// One lane: a rank talks to one peer at a time. Sends come first in their round, since a lane that
// begins by receiving waits for ever. In place is refused: output[rank - d] arrives in round d,
// input[rank - d] leaves in round n - d.
Schedule build(const Shape& shape) {
  const int n = shape.ranks;
  Builder b("pairwise", {.collective = Collective::kAllToAll, .ranks = n});
  const auto lanes = b.lane_on_every_rank(Need::kMove);
  for (int distance = 1; distance < n; ++distance) {
    std::vector<int> channels;  // by sender
    for (int rank = 0; rank < n; ++rank) {
      const int peer = wrap(rank + distance, n);
      channels.push_back(b.single_hop_channel(at(lanes, rank), at(lanes, peer)));
      b.send(at(lanes, rank), {input_block(peer)}, channels.back());
    }
    for (int rank = 0; rank < n; ++rank) {
      const int peer = wrap(rank - distance, n);
      b.recv(at(lanes, rank), at(channels, peer), {output_block(peer)});
    }
  }
  // The own block comes last: nobody waits for it.
  for (const LaneId lane : lanes) {
    b.copy(lane, {input_block(lane.rank)}, {output_block(lane.rank)});
  }
  return std::move(b).finish();
}

std::int64_t blocks_on_link(const Shape&, int from, int to) {
  return one_block_each_pair(from, to);
}

std::int64_t rounds(const Shape& shape) { return shape.ranks - 1; }

}  // namespace

Algorithm pairwise() {
  return {.collective = Collective::kAllToAll,
          .name = "pairwise",
          .summary = "in round d, send to the d-th successor and receive from the d-th predecessor",
          .source = "Thakur, Rabenseifner and Gropp 2005",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = false};
}

}  // namespace sennit::algo::all_to_all
