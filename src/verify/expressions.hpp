// Expressions: what a cell holds, as a tree, each distinct tree stored once. Two values have the
// same number exactly when they are computed by the same steps from the same inputs and are thus
// equal in every bit.
//
// A reduction is one reduction step over all its operands, ((a . b) . c): it rounds once, at its
// end, so it is another tree than two nested reductions. Operators are commutative in every bit but
// not associative; hence the first two operands of a reduction are sorted, and no others.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace sennit {

class Expressions {
 public:
  // The value of a cell that was never written.
  static constexpr int kNothing = -1;

  enum class Kind : std::uint8_t {
    kLeaf,    // operands: rank, index of the input block
    kScaled,  // scaled and rounded: a contribution, or a sum by a step of its own
    kReduction,
    kFinishedReduction,  // a reduction whose result is scaled before it is rounded
    kCoded,              // what a lossy codec makes of its operand: decode(encode(x))
  };

  struct Node {
    Kind kind = Kind::kLeaf;
    bool pre_scaled = false;   // every contribution was scaled
    bool post_scaled = false;  // the sum was scaled
    bool coded = false;        // it, or a part of it, is kCoded
    std::uint8_t codec = 0;    // of kCoded
    int block = 0;             // which input block
    int first_operand = 0;
    int operands = 0;
  };

  explicit Expressions(int ranks) : words_((static_cast<std::size_t>(ranks) + 63) / 64) {}

  int leaf(int rank, int block);
  // `finished`: it is the sum that is scaled, not a contribution.
  int scaled(int operand, bool finished);
  // `kind` is kReduction or kFinishedReduction; two operands or more.
  int reduce(Kind kind, std::span<const int> operands);

  // What a lossy codec leaves of it.
  int coded(std::uint8_t codec, int operand);

  [[nodiscard]] const Node& node(int id) const { return nodes_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] std::span<const int> operands(int id) const;

  // The ranks whose contributions are in it: as a set of bits, in numbers.
  [[nodiscard]] bool contains(int id, int rank) const;
  [[nodiscard]] int contributions(int id) const;
  [[nodiscard]] bool disjoint(int a, int b) const;

  // What was coded, where it is kCoded; else itself.
  [[nodiscard]] int uncoded(int id) const;
  // A leaf of `rank`, perhaps coded.
  [[nodiscard]] bool is_leaf_of(int id, int rank) const;
  // A leaf, or a scaled one: what one rank contributes.
  [[nodiscard]] bool is_contribution(int id) const { return leaf_rank(id) >= 0; }

  // Whether it is one reduction of the leaves, scaled or not, of ranks 0 ... ranks - 1, in this
  // order.
  [[nodiscard]] bool is_canonical(int id, int ranks) const;

 private:
  int find_or_add(const Node& node, std::span<const int> operands);
  [[nodiscard]] std::span<const std::uint64_t> set(int id) const;
  [[nodiscard]] int leaf_rank(int id) const;

  std::size_t words_;
  std::vector<Node> nodes_;
  std::vector<int> operands_;
  std::vector<std::uint64_t> sets_;  // words_ a node
  std::unordered_multimap<std::uint64_t, int> by_hash_;
};

}  // namespace sennit
