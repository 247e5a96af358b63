#include "algo/all_reduce/all_reduce.hpp"
#include "algo/ranks.hpp"
#include "algo/wiring.hpp"

namespace sennit::algo::all_reduce {
namespace {

// Three lanes a rank, so that sending inputs, reducing and receiving results overlap from tile to
// tile: `sends` runs ahead, `sums` waits for the slowest input only.
Schedule build(const Shape& shape) {
  const int n = shape.ranks;
  Builder b("two_shot", {.collective = Collective::kAllReduce, .ranks = n, .cut = n});
  const auto sends = b.lane_on_every_rank(Need::kMove);
  const auto sums = b.lane_on_every_rank(Need::kReduce);
  const auto results = b.lane_on_every_rank(Need::kMove);
  const auto inputs = pair_channels(b, sends, sums);
  const auto sum_channels = pair_channels(b, sums, results);
  for (int rank = 0; rank < n; ++rank) {
    for (const int peer : successors(rank, n)) {
      b.send(at(sends, rank), {input_block(peer)}, at(at(inputs, rank), peer));
    }
    Step sum = reduce_in_order(inputs, rank, {input_block(rank)}, {output_block(rank)});
    for (const int peer : successors(rank, n)) {
      sum.out.push_back(at(at(sum_channels, rank), peer));
    }
    b.step(at(sums, rank), std::move(sum));
    // In place a result overwrites the input that was sent for it, which needs no `after`: the peer
    // could not have summed before that input had arrived.
    for (const int peer : predecessors(rank, n)) {
      b.recv(at(results, rank), at(at(sum_channels, peer), rank), {output_block(peer)});
    }
  }
  return std::move(b).finish();
}

std::int64_t blocks_on_link(const Shape&, int from, int to) {
  return 2 * one_block_each_pair(from, to);
}

std::int64_t rounds(const Shape& shape) { return shape.ranks == 1 ? 0 : 2; }

}  // namespace

Algorithm two_shot() {
  return {.collective = Collective::kAllReduce,
          .name = "two_shot",
          .summary = "each rank sums one block of all inputs in rank order and sends it to all",
          .source = "Thakur, Rabenseifner and Gropp 2005 (reduce-scatter, then all-gather)",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true};
}

}  // namespace sennit::algo::all_reduce
