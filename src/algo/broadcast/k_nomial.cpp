#include "algo/broadcast/broadcast.hpp"
#include "algo/k_nomial_tree.hpp"
#include "algo/ranks.hpp"

#include <algorithm>

namespace sennit::algo::broadcast {
namespace {

// Sends `held` of `rank` to the receiving lane of each child. A node with one child forwards in the
// lane it receives in, and fusion makes that one step: the data is still in cache. A node with more
// has a lane a child: one step with several outs would run at the pace of the slowest child, while
// these lanes, whose output cells of different tiles are disjoint, each keep their own.
class Node {
 public:
  Node(Builder& b, LaneId receiving) : b_(b), receiving_(receiving) {}

  void receive(int channel) {
    arrival_ = b_.recv(receiving_, channel, {output_block(0)});
    is_root_ = false;
  }

  int send(LaneId child, bool only_child) {
    const LaneId lane = only_child ? receiving_ : b_.lane(receiving_.rank, Need::kMove);
    const int channel = b_.channel(lane, child);
    b_.send(lane, {is_root_ ? input_block(0) : output_block(0)}, channel);
    if (!is_root_ && !only_child) {
      b_.after(lane, {arrival_});
    }
    return channel;
  }

 private:
  Builder& b_;
  LaneId receiving_;
  StepRef arrival_;
  bool is_root_ = true;
};

Schedule build(const Shape& shape) {
  Builder b("k_nomial",
            {.collective = Collective::kBroadcast, .ranks = shape.ranks, .root = shape.root});
  const KNomialTree tree(shape.ranks, shape.root, shape.radix);
  copy_at_root(b);
  std::vector<Node> nodes;
  const auto lanes = b.lane_on_every_rank(Need::kMove);
  for (int v = 0; v < shape.ranks; ++v) {
    nodes.emplace_back(b, at(lanes, tree.rank(v)));
  }
  // A parent has a lower number than its children, so it has received before it sends.
  for (int v = 0; v < shape.ranks; ++v) {
    auto children = tree.children(v);
    std::ranges::reverse(children);  // the largest subtree first: it takes longest
    for (const int child : children) {
      const int channel = nodes[static_cast<std::size_t>(v)].send(at(lanes, tree.rank(child)),
                                                                  children.size() == 1);
      nodes[static_cast<std::size_t>(child)].receive(channel);
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
          .in_place = true};
}

}  // namespace sennit::algo::broadcast
