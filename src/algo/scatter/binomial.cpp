#include "algo/scatter/scatter.hpp"
#include "algo/subtree_blocks.hpp"

namespace sennit::algo::scatter {
namespace {

// A node receives the blocks of its whole subtree as one message, keeps its own and hands each
// child the part for its subtree.
class Build {
 public:
  explicit Build(const Shape& shape)
      : tree_(shape.ranks, shape.root, /*radix=*/2),
        b_("binomial",
           {.collective = Collective::kScatter, .ranks = shape.ranks, .root = shape.root}),
        blocks_(b_, tree_, input_block, output_block) {}

  Schedule run() {
    const int root = b_.problem().root;
    b_.copy(b_.lane(root, Need::kMove), {input_block(root)}, {output_block(0)});
    for (const int child : tree_.children(0)) {
      deliver(child, 0, {});
    }
    return std::move(b_).finish();
  }

 private:
  // Sends the subtree of `v` from `parent`, where it is after `arrival`, and on to its children.
  void deliver(int v, int parent, const std::vector<StepRef>& arrival) {
    const LaneId sender = b_.lane(tree_.rank(parent), Need::kMove);
    const LaneId receiver = b_.lane(tree_.rank(v), Need::kMove);
    const int channel = b_.channel(sender, receiver);
    b_.send(sender, blocks_.at_parent(parent, v), channel);
    for (const StepRef step : arrival) {
      b_.after(sender, {step});
    }
    const StepRef arrived = b_.recv(receiver, channel, blocks_.at_node(v));
    for (const int child : tree_.children(v)) {
      deliver(child, v, {arrived});
    }
  }

  KNomialTree tree_;
  Builder b_;
  SubtreeBlocks blocks_;
};

Schedule build(const Shape& shape) { return Build(shape).run(); }

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  return blocks_on_binomial_edge(shape, from, to);
}

std::int64_t rounds(const Shape& shape) { return k_nomial_depth(shape.ranks, /*radix=*/2); }

}  // namespace

Algorithm binomial() {
  return {
      .collective = Collective::kScatter,
      .name = "binomial",
      .summary = "down a binomial tree, each message a whole subtree: few rounds, for small blocks",
      .source = "Thakur, Rabenseifner and Gropp 2005 (binomial tree)",
      .build = build,
      .refuses = refuses_nothing,
      .blocks_on_link = blocks_on_link,
      .rounds = rounds,
      .in_place = true};
}

}  // namespace sennit::algo::scatter
