#include "algo/all_gather/all_gather.hpp"
#include "algo/ranks.hpp"

namespace sennit::algo::all_gather {
namespace {

// One lane sends and one receives, in rounds: in round d every rank writes to its d-th successor.
Schedule build(const Shape& shape) {
  const int n = shape.ranks;
  Builder b("direct", {.collective = Collective::kAllGather, .ranks = n});
  copy_own_blocks(b);
  if (n == 1) {
    return std::move(b).finish();
  }
  const auto sends = b.lane_on_every_rank(Need::kMove);
  const auto receives = b.lane_on_every_rank(Need::kMove);
  for (int distance = 1; distance < n; ++distance) {
    for (int rank = 0; rank < n; ++rank) {
      const LaneId receiver = at(receives, wrap(rank + distance, n));
      const int channel = b.single_hop_channel(at(sends, rank), receiver);
      b.send(at(sends, rank), {input_block(0)}, channel);
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
  return {.collective = Collective::kAllGather,
          .name = "direct",
          .summary = "each rank sends its block to all: one round",
          .source = "textbook: direct exchange",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true};
}

}  // namespace sennit::algo::all_gather
