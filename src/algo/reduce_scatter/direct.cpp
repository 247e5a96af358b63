#include "algo/ranks.hpp"
#include "algo/reduce_scatter/reduce_scatter.hpp"
#include "algo/wiring.hpp"

namespace sennit::algo::reduce_scatter {
namespace {

// One lane sends and one sums, so that a rank's sends of the next tile do not wait for its sum.
Schedule build(const Shape& shape) {
  const int n = shape.ranks;
  Builder b("direct", {.collective = Collective::kReduceScatter, .ranks = n});
  const auto sends = b.lane_on_every_rank(Need::kMove);
  const auto sums = b.lane_on_every_rank(Need::kReduce);
  const auto channels = pair_channels(b, sends, sums);
  for (int rank = 0; rank < n; ++rank) {
    for (const int peer : successors(rank, n)) {
      b.send(at(sends, rank), {input_block(peer)}, at(at(channels, rank), peer));
    }
    b.step(at(sums, rank), reduce_in_order(channels, rank, {input_block(rank)}, {output_block(0)}));
  }
  return std::move(b).finish();
}

std::int64_t blocks_on_link(const Shape&, int from, int to) {
  return one_block_each_pair(from, to);
}

std::int64_t rounds(const Shape& shape) { return shape.ranks == 1 ? 0 : 1; }

}  // namespace

Algorithm direct() {
  return {.collective = Collective::kReduceScatter,
          .name = "direct",
          .summary = "each rank receives its block of all inputs and sums in rank order",
          .source = "textbook: direct exchange",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true};
}

}  // namespace sennit::algo::reduce_scatter
