#include "algo/broadcast/down_tree.hpp"

#include "algo/ranks.hpp"

#include <algorithm>

namespace sennit::algo::broadcast {

// An inner node with one child forwards in the lane it receives in, and fusion makes that one
// step: the data is still in cache. One with more has a lane a child: a step with several outs
// would run at the pace of the slowest child, while these lanes, whose cells of different tiles are
// disjoint, each keep their own.
Arrivals send_down_tree(Builder& b,
                        const KNomialTree& tree,
                        const std::function<Block(int v)>& held,
                        std::optional<StepRef> at_root) {
  const int n = b.problem().ranks;
  // By virtual number; a parent has a lower number than its children.
  std::vector<LaneId> receiving(static_cast<std::size_t>(n));
  Arrivals arrivals(static_cast<std::size_t>(n));
  arrivals[0] = at_root;
  for (int v = 0; v < n; ++v) {
    auto children = tree.children(v);
    std::ranges::reverse(children);  // the largest subtree first: it takes longest
    const bool passes_on = v > 0 && children.size() == 1;
    for (const int child : children) {
      const LaneId sender = passes_on ? at(receiving, v) : b.lane(tree.rank(v), Need::kMove);
      const LaneId receiver = b.lane(tree.rank(child), Need::kMove);
      const int channel = b.channel(sender, receiver);
      b.send(sender, {held(v)}, channel);
      if (const auto arrival = at(arrivals, v); arrival && !passes_on) {
        b.after(sender, {*arrival});
      }
      receiving[static_cast<std::size_t>(child)] = receiver;
      arrivals[static_cast<std::size_t>(child)] = b.recv(receiver, channel, {held(child)});
    }
  }
  return arrivals;
}

}  // namespace sennit::algo::broadcast
