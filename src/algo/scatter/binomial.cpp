#include "algo/k_nomial_tree.hpp"
#include "algo/ranks.hpp"
#include "algo/scatter/scatter.hpp"
#include "schedule/builder.hpp"

#include <algorithm>

namespace sennit::algo::scatter {
namespace {

// A node receives the blocks of its whole subtree as one message, keeps its own and holds the rest
// in scratch for its children. Two instances of the scratch let the next tile arrive meanwhile.
constexpr int kScratchDepth = 2;

class Build {
 public:
  explicit Build(const Shape& shape)
      : tree_(shape.ranks, shape.root, /*radix=*/2),
        b_("binomial",
           {.collective = Collective::kScatter, .ranks = shape.ranks, .root = shape.root}) {}

  Schedule run() {
    const int root = b_.problem().root;
    b_.copy(b_.lane(root, Need::kMove), {input_block(root)}, {output_block(0)});
    if (tree_.largest_inner_subtree() > 1) {
      scratch_ = b_.scratch("subtree", tree_.largest_inner_subtree() - 1, kScratchDepth);
    }
    for (const int child : tree_.children(0)) {
      const LaneId sender = b_.lane(root, Need::kMove);
      deliver(child, 0, sender, {});
    }
    return std::move(b_).finish();
  }

 private:
  // Sends the subtree of `v` from `sender`, a lane of `parent`, and on to its children.
  void deliver(int v, int parent, LaneId sender, const std::vector<StepRef>& arrival) {
    const LaneId receiver = b_.lane(tree_.rank(v), Need::kMove);
    const int channel = b_.channel(sender, receiver);
    b_.send(sender, held_by(parent, v), channel);
    for (const StepRef step : arrival) {
      b_.after(sender, {step});
    }
    Blocks to{output_block(0)};
    for (int offset = 1; offset < tree_.subtree(v); ++offset) {
      to.push_back(scratch_block(scratch_, offset - 1));
    }
    const StepRef arrived = b_.recv(receiver, channel, std::move(to));
    for (const int child : tree_.children(v)) {
      deliver(child, v, b_.lane(tree_.rank(v), Need::kMove), {arrived});
    }
  }

  // Where `parent` has the blocks of the subtree of its child `v`.
  [[nodiscard]] Blocks held_by(int parent, int v) const {
    Blocks from;
    for (int node = v; node < v + tree_.subtree(v); ++node) {
      from.push_back(parent == 0 ? input_block(tree_.rank(node))
                                 : scratch_block(scratch_, node - parent - 1));
    }
    return from;
  }

  KNomialTree tree_;
  Builder b_;
  int scratch_ = 0;
};

Schedule build(const Shape& shape) { return Build(shape).run(); }

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  if (!is_k_nomial_edge(shape, /*radix=*/2, from, to)) {
    return 0;
  }
  // The subtree of v holds the numbers that agree with v above its lowest bit.
  const int v = wrap(to - shape.root, shape.ranks);
  return std::min(v & -v, shape.ranks - v);
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
