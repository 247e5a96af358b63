#include "algo/ranks.hpp"
#include "algo/reduce/reduce.hpp"
#include "algo/wiring.hpp"

#include <algorithm>

namespace sennit::algo::reduce {
namespace {

// The vector is cut into as many slices as there are ranks besides the root; slice v - 1 is owned
// by the root's v-th successor. So every wire carries one vector each way, the root's as well.
// Inputs are sent, sums formed and results received on lanes of their own, which overlap from tile
// to tile; the root's inputs on one for each owner, so that no owner waits while another one has
// more to take in.
Schedule build(const Shape& shape) {
  const int n = shape.ranks;
  const int root = shape.root;
  Builder b(
      "scatter_gather",
      {.collective = Collective::kReduce, .ranks = n, .root = root, .cut = std::max(1, n - 1)});
  if (n == 1) {
    b.copy(b.lane(root, Need::kReduce), {input_block(0)}, {output_block(0)});
    return std::move(b).finish();
  }
  const std::vector<int> owners = successors(root, n);
  const auto sums = lanes_on(b, owners, Need::kReduce);
  const auto sends = lanes_on(b, n > 2 ? owners : std::vector<int>{}, Need::kMove);
  const auto channels = pair_channels(b, sends, sums);
  const LaneId results = b.lane(root, Need::kMove);
  for (int slice = 0; slice < n - 1; ++slice) {
    const int owner = at(owners, slice);
    const LaneId sender = b.lane(root, Need::kMove);
    const int from_root = b.channel(sender, at(sums, slice));
    const int to_root = b.channel(at(sums, slice), results);
    b.send(sender, {input_block(slice)}, from_root);
    for (const int peer : successors(slice, n - 1)) {
      b.send(at(sends, slice), {input_block(peer)}, at(at(channels, slice), peer));
    }
    Step sum{.kind = StepKind::kRecvReduce,
             .from = {input_block(slice)},
             .out = {to_root},
             .order = rank_order(owner, n)};
    for (const int rank : others(owner, n)) {
      const int theirs = wrap(rank - root, n) - 1;
      sum.in.push_back(rank == root ? from_root : at(at(channels, theirs), slice));
    }
    b.step(at(sums, slice), std::move(sum));
    // In place it overwrites the input that was sent for it, which needs no `after`: the owner
    // could not have summed before that input had arrived.
    b.recv(results, to_root, {output_block(slice)});
  }
  return std::move(b).finish();
}

std::int64_t blocks_on_link(const Shape&, int from, int to) {
  return one_block_each_pair(from, to);
}

std::int64_t rounds(const Shape& shape) { return shape.ranks == 1 ? 0 : 2; }

}  // namespace

Algorithm scatter_gather() {
  return {.collective = Collective::kReduce,
          .name = "scatter_gather",
          .summary =
              "in two hops: each rank but the root sums a slice of all inputs in rank order and "
              "sends it to the root",
          .source = "Thakur, Rabenseifner and Gropp 2005 (reduce-scatter, then gather)",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true};
}

}  // namespace sennit::algo::reduce
