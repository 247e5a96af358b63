// The k-nomial tree: rank `root + v` has the virtual number v, written in base `radix`. The parent
// of v is v with its lowest non-zero digit cleared; the subtree of v is a contiguous range of
// virtual numbers. Radix 2 is the binomial tree, radix >= ranks the star.
//
// The closed forms below count from digits alone and do not use the tree, because the verifier
// compares schedules that were built from the tree with them.
#pragma once

#include "schedule/problem.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

namespace sennit::algo {

class KNomialTree {
 public:
  // `radix` 0 stands for 2.
  KNomialTree(int ranks, int root, int radix);

  // Of the virtual number `v`.
  [[nodiscard]] int rank(int v) const;
  [[nodiscard]] std::vector<int> children(int v) const;  // ascending: smallest subtree first
  [[nodiscard]] int subtree(int v) const;                // its number of nodes, v included
  [[nodiscard]] int largest_inner_subtree() const;       // of all nodes but the root; 0 if none

 private:
  int ranks_;
  int root_;
  int radix_;
};

// Why a k-nomial algorithm cannot run `shape`; empty when it can.
std::string_view refuses_radix(const Shape& shape);

// Whether rank `parent` is the parent of rank `child`.
bool is_k_nomial_edge(const Shape& shape, int radix, int parent, int child);

// Nodes of the subtree of the virtual number `v` > 0, itself included, for radix 2: the numbers
// that agree with v above its lowest bit.
constexpr int binomial_subtree(int ranks, int v) { return std::min(v & -v, ranks - v); }

// Edges between the root and its deepest node: the most non-zero digits of a number below `ranks`.
std::int64_t k_nomial_depth(int ranks, int radix);

}  // namespace sennit::algo
