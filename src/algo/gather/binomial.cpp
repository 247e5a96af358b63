#include "algo/gather/gather.hpp"
#include "algo/k_nomial_tree.hpp"
#include "algo/ranks.hpp"
#include "schedule/builder.hpp"

#include <algorithm>

namespace sennit::algo::gather {
namespace {

// An inner node lays its children's blocks side by side in scratch, in the order of their virtual
// numbers, and sends the whole subtree as one message. Two instances of the scratch let the
// children of a node fill one while the other travels on.
constexpr int kScratchDepth = 2;

class Build {
 public:
  explicit Build(const Shape& shape)
      : tree_(shape.ranks, shape.root, /*radix=*/2),
        b_("binomial",
           {.collective = Collective::kGather, .ranks = shape.ranks, .root = shape.root}) {}

  Schedule run() {
    const int root = b_.problem().root;
    b_.copy(b_.lane(root, Need::kMove), {input_block(0)}, {output_block(root)});
    if (tree_.largest_inner_subtree() > 1) {
      scratch_ = b_.scratch("subtree", tree_.largest_inner_subtree() - 1, kScratchDepth);
    }
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
    Blocks from{input_block(0)};
    for (int offset = 1; offset < tree_.subtree(v); ++offset) {
      from.push_back(scratch_block(scratch_, offset - 1));
    }
    const int channel = b_.channel(sender, receiver);
    b_.send(sender, std::move(from), channel);
    for (const StepRef arrival : arrivals) {
      b_.after(sender, {arrival});
    }
    return b_.recv(receiver, channel, place_at(parent, v));
  }

  // Where `parent` keeps the blocks of the subtree of its child `v`.
  [[nodiscard]] Blocks place_at(int parent, int v) const {
    Blocks to;
    for (int node = v; node < v + tree_.subtree(v); ++node) {
      to.push_back(parent == 0 ? output_block(tree_.rank(node))
                               : scratch_block(scratch_, node - parent - 1));
    }
    return to;
  }

  KNomialTree tree_;
  Builder b_;
  int scratch_ = 0;
};

Schedule build(const Shape& shape) { return Build(shape).run(); }

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  if (!is_k_nomial_edge(shape, /*radix=*/2, to, from)) {
    return 0;
  }
  // The subtree of v holds the numbers that agree with v above its lowest bit.
  const int v = wrap(from - shape.root, shape.ranks);
  return std::min(v & -v, shape.ranks - v);
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
