#include "algo/gather/gather.hpp"
#include "algo/subtree_blocks.hpp"

namespace sennit::algo::gather {
namespace {

// An inner node collects its children's subtrees next to its own block and sends all of it as one
// message.
class Build {
 public:
  explicit Build(const Shape& shape)
      : tree_(shape.ranks, shape.root, /*radix=*/2),
        b_("binomial",
           {.collective = Collective::kGather, .ranks = shape.ranks, .root = shape.root}),
        blocks_(b_, tree_, output_block, input_block) {}

  Schedule run() {
    const int root = b_.problem().root;
    b_.copy(b_.lane(root, Need::kMove), {input_block(0)}, {output_block(root)});
    for (const int child : tree_.children(0)) {
      collect(child, 0, b_.lane(root, Need::kMove));
    }
    return std::move(b_).finish();
  }

 private:
  // The subtree of `v` arrives in `receiver`, a lane of `parent`.
  StepRef collect(int v, int parent, LaneId receiver) {
    const LaneId sender = b_.lane(tree_.rank(v), Need::kMove);
    std::vector<StepRef> arrivals;
    for (const int child : tree_.children(v)) {
      arrivals.push_back(collect(child, v, b_.lane(tree_.rank(v), Need::kMove)));
    }
    const int channel = b_.channel(sender, receiver);
    b_.send(sender, blocks_.at_node(v), channel);
    for (const StepRef arrival : arrivals) {
      b_.after(sender, {arrival});
    }
    return b_.recv(receiver, channel, blocks_.at_parent(parent, v));
  }

  KNomialTree tree_;
  Builder b_;
  SubtreeBlocks blocks_;
};

Schedule build(const Shape& shape) { return Build(shape).run(); }

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  return blocks_on_binomial_edge(shape, to, from);
}

std::int64_t rounds(const Shape& shape) { return k_nomial_depth(shape.ranks, /*radix=*/2); }

}  // namespace

Algorithm binomial() {
  return {
      .collective = Collective::kGather,
      .name = "binomial",
      .summary = "up a binomial tree, each message a whole subtree: few rounds, for small blocks",
      .source = "Thakur, Rabenseifner and Gropp 2005 (binomial tree)",
      .build = build,
      .refuses = refuses_nothing,
      .blocks_on_link = blocks_on_link,
      .rounds = rounds,
      .in_place = true};
}

}  // namespace sennit::algo::gather
