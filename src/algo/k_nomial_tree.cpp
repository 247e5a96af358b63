#include "algo/k_nomial_tree.hpp"

#include "algo/ranks.hpp"

#include <algorithm>

namespace sennit::algo {
namespace {

// A radix above the number of ranks makes the same star, without overflow in its powers.
int effective_radix(int ranks, int radix) {
  return radix == 0 ? 2 : std::min(radix, std::max(2, ranks));
}

}  // namespace

KNomialTree::KNomialTree(int ranks, int root, int radix)
    : ranks_(ranks), root_(root), radix_(effective_radix(ranks, radix)) {}

int KNomialTree::rank(int v) const { return wrap(root_ + v, ranks_); }

std::vector<int> KNomialTree::children(int v) const {
  std::vector<int> list;
  for (int stride = 1; stride < ranks_ && v % (stride * radix_) == 0; stride *= radix_) {
    for (int child = v + stride; child < v + radix_ * stride && child < ranks_; child += stride) {
      list.push_back(child);
    }
  }
  return list;
}

int KNomialTree::subtree(int v) const {
  int nodes = 1;
  for (const int child : children(v)) {
    nodes += subtree(child);
  }
  return nodes;
}

int KNomialTree::largest_inner_subtree() const {
  int largest = 0;
  for (const int child : children(0)) {
    largest = std::max(largest, subtree(child));
  }
  return largest;
}

std::string_view refuses_radix(const Shape& shape) {
  return shape.radix == 0 || shape.radix >= 2 ? "" : "the radix of its tree must be at least 2";
}

bool is_k_nomial_edge(const Shape& shape, int radix, int parent, int child) {
  const int base = effective_radix(shape.ranks, radix);
  const int above = wrap(parent - shape.root, shape.ranks);
  const int below = wrap(child - shape.root, shape.ranks);
  if (below == 0) {
    return false;
  }
  int stride = 1;  // of the lowest non-zero digit of the child
  while (below % (stride * base) == 0) {
    stride *= base;
  }
  return above == below - below % (stride * base);
}

std::int64_t k_nomial_depth(int ranks, int radix) {
  const int base = effective_radix(ranks, radix);
  // 1, 11, 111, ... in base `radix` are the smallest numbers with 1, 2, 3, ... non-zero digits.
  std::int64_t depth = 0;
  for (std::int64_t repunit = 1; repunit < ranks; repunit = repunit * base + 1) {
    ++depth;
  }
  return depth;
}

}  // namespace sennit::algo
