#include "algo/broadcast/broadcast.hpp"
#include "algo/k_nomial_tree.hpp"
#include "algo/ranks.hpp"

#include <algorithm>

namespace sennit::algo::broadcast {
namespace {

// An inner node with one child forwards in the lane it receives in, and fusion makes that one
// step: the data is still in cache. One with more has a lane a child: a step with several outs
// would run at the pace of the slowest child, while these lanes, whose output cells of different
// tiles are disjoint, each keep their own.
Schedule build(const Shape& shape) {
  const int n = shape.ranks;
  Builder b("k_nomial", {.collective = Collective::kBroadcast, .ranks = n, .root = shape.root});
  const KNomialTree tree(n, shape.root, shape.radix);
  copy_at_root(b);
  // By virtual number; a parent has a lower number than its children.
  std::vector<LaneId> receiving(static_cast<std::size_t>(n));
  std::vector<StepRef> arrival(static_cast<std::size_t>(n));
  for (int v = 0; v < n; ++v) {
    auto children = tree.children(v);
    std::ranges::reverse(children);  // the largest subtree first: it takes longest
    const bool passes_on = v > 0 && children.size() == 1;
    for (const int child : children) {
      const LaneId sender = passes_on ? at(receiving, v) : b.lane(tree.rank(v), Need::kMove);
      const LaneId receiver = b.lane(tree.rank(child), Need::kMove);
      const int channel = b.channel(sender, receiver);
      b.send(sender, {v == 0 ? input_block(0) : output_block(0)}, channel);
      if (v > 0 && !passes_on) {
        b.after(sender, {at(arrival, v)});
      }
      receiving[static_cast<std::size_t>(child)] = receiver;
      arrival[static_cast<std::size_t>(child)] = b.recv(receiver, channel, {output_block(0)});
    }
  }
  return std::move(b).finish();
}

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  return is_k_nomial_edge(shape, shape.radix, from, to) ? 1 : 0;
}

std::int64_t rounds(const Shape& shape) { return k_nomial_depth(shape.ranks, shape.radix); }

}  // namespace

Algorithm k_nomial() {
  return {.collective = Collective::kBroadcast,
          .name = "k_nomial",
          .summary = "down a tree in which the root has most children; radix 2 is binomial",
          .source = "Awan et al. 2018 (k-nomial tree)",
          .build = build,
          .refuses = refuses_radix,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true,
          .takes_radix = true};
}

}  // namespace sennit::algo::broadcast
