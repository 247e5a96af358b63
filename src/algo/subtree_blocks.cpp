#include "algo/subtree_blocks.hpp"

#include "algo/ranks.hpp"

namespace sennit::algo {
namespace {

constexpr int kScratchDepth = 2;

}  // namespace

SubtreeBlocks::SubtreeBlocks(Builder& b, const KNomialTree& tree, MakeBlock at_root, MakeBlock own)
    : tree_(tree), at_root_(at_root), own_(own) {
  if (tree.largest_inner_subtree() > 1) {
    scratch_ = b.scratch("subtree", tree.largest_inner_subtree() - 1, kScratchDepth);
  }
}

Blocks SubtreeBlocks::at_node(int v) const {
  Blocks blocks{own_(0)};
  for (int offset = 1; offset < tree_.subtree(v); ++offset) {
    blocks.push_back(scratch_block(scratch_, offset - 1));
  }
  return blocks;
}

Blocks SubtreeBlocks::at_parent(int parent, int v) const {
  Blocks blocks;
  for (int node = v; node < v + tree_.subtree(v); ++node) {
    blocks.push_back(parent == 0 ? at_root_(tree_.rank(node))
                                 : scratch_block(scratch_, node - parent - 1));
  }
  return blocks;
}

std::int64_t blocks_on_binomial_edge(const Shape& shape, int parent, int child) {
  return is_k_nomial_edge(shape, /*radix=*/2, parent, child)
             ? binomial_subtree(shape.ranks, wrap(child - shape.root, shape.ranks))
             : 0;
}

}  // namespace sennit::algo
