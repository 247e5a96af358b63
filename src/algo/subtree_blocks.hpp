// SubtreeBlocks: where gather and scatter keep the blocks of a subtree of the binomial tree.
//
// A message holds the blocks of a whole subtree in the order of its virtual numbers. The root has
// them in its output (gather) or input (scatter); an inner node has its own block in its user's
// memory and the others in scratch. Two instances of the scratch let a node take one tile while it
// passes on another.
#pragma once

#include "algo/k_nomial_tree.hpp"
#include "schedule/builder.hpp"

namespace sennit::algo {

class SubtreeBlocks {
 public:
  using MakeBlock = Block (*)(int index);

  // `at_root` makes the root's block of a rank, `own` the own block of any other.
  SubtreeBlocks(Builder& b, const KNomialTree& tree, MakeBlock at_root, MakeBlock own);

  // The blocks of the subtree of `v`, as `v` itself (not the root) has them.
  [[nodiscard]] Blocks at_node(int v) const;
  // The same blocks, as the parent of `v` has them.
  [[nodiscard]] Blocks at_parent(int parent, int v) const;

 private:
  const KNomialTree& tree_;
  MakeBlock at_root_;
  MakeBlock own_;
  int scratch_ = 0;
};

// A closed form: the blocks that cross the edge of the binomial tree between two ranks, 0 if there
// is no such edge.
std::int64_t blocks_on_binomial_edge(const Shape& shape, int parent, int child);

}  // namespace sennit::algo
