#include "expressions.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace sennit {
namespace {

std::uint64_t hash_of(const Expressions::Node& node, std::span<const int> operands) {
  std::uint64_t hash = (static_cast<std::uint64_t>(node.kind) * 2 + (node.post_scaled ? 1 : 0)) |
                       std::uint64_t{node.codec} << 8;
  for (const int operand : operands) {
    // A multiplication by a large odd number and a rotation: mixes every operand and its place.
    hash = std::rotl((hash ^ static_cast<std::uint64_t>(operand)) * 0x9e3779b97f4a7c15U, 29);
  }
  return hash;
}

}  // namespace

int Expressions::leaf(int rank, int block) {
  const std::array<int, 2> operands{rank, block};
  return find_or_add({.kind = Kind::kLeaf, .block = block}, operands);
}

int Expressions::scaled(int operand, bool finished) {
  Node scaled = node(operand);
  scaled.kind = Kind::kScaled;
  scaled.codec = 0;
  (finished ? scaled.post_scaled : scaled.pre_scaled) = true;
  return find_or_add(scaled, std::array{operand});
}

int Expressions::coded(std::uint8_t codec, int operand) {
  Node coded = node(operand);
  coded.kind = Kind::kCoded;
  coded.coded = true;
  coded.codec = codec;
  return find_or_add(coded, std::array{operand});
}

int Expressions::reduce(Kind kind, std::span<const int> operands) {
  std::vector<int> sorted(operands.begin(), operands.end());
  if (sorted[0] > sorted[1]) {
    std::swap(sorted[0], sorted[1]);
  }
  const Node& first = node(sorted[0]);
  return find_or_add(
      {.kind = kind,
       .pre_scaled = first.pre_scaled,
       .post_scaled = kind == Kind::kFinishedReduction,
       .coded = std::ranges::any_of(sorted, [this](int operand) { return node(operand).coded; }),
       .block = first.block},
      sorted);
}

int Expressions::find_or_add(const Node& node, std::span<const int> operands) {
  const std::uint64_t hash = hash_of(node, operands);
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    const Node& known = nodes_[static_cast<std::size_t>(it->second)];
    if (known.kind == node.kind && known.post_scaled == node.post_scaled &&
        known.pre_scaled == node.pre_scaled && known.codec == node.codec &&
        std::ranges::equal(this->operands(it->second), operands)) {
      return it->second;
    }
  }
  const int id = static_cast<int>(nodes_.size());
  Node added = node;
  added.first_operand = static_cast<int>(operands_.size());
  added.operands = static_cast<int>(operands.size());
  nodes_.push_back(added);
  operands_.insert(operands_.end(), operands.begin(), operands.end());
  sets_.resize(sets_.size() + words_, 0);
  std::uint64_t* const own = &sets_[static_cast<std::size_t>(id) * words_];
  if (node.kind == Kind::kLeaf) {
    own[operands[0] / 64] = std::uint64_t{1} << (operands[0] % 64);
  } else {
    for (const int operand : operands) {
      const auto other = set(operand);
      for (std::size_t w = 0; w < words_; ++w) {
        own[w] |= other[w];
      }
    }
  }
  by_hash_.emplace(hash, id);
  return id;
}

std::span<const int> Expressions::operands(int id) const {
  return std::span(operands_).subspan(static_cast<std::size_t>(node(id).first_operand),
                                      static_cast<std::size_t>(node(id).operands));
}

std::span<const std::uint64_t> Expressions::set(int id) const {
  return std::span(sets_).subspan(static_cast<std::size_t>(id) * words_, words_);
}

bool Expressions::contains(int id, int rank) const {
  return (set(id)[static_cast<std::size_t>(rank) / 64] >> (rank % 64) & 1) != 0;
}

int Expressions::contributions(int id) const {
  int count = 0;
  for (const std::uint64_t word : set(id)) {
    count += std::popcount(word);
  }
  return count;
}

bool Expressions::disjoint(int a, int b) const {
  for (std::size_t w = 0; w < words_; ++w) {
    if ((set(a)[w] & set(b)[w]) != 0) {
      return false;
    }
  }
  return true;
}

int Expressions::uncoded(int id) const {
  return node(id).kind == Kind::kCoded ? operands(id)[0] : id;
}

bool Expressions::is_leaf_of(int id, int rank) const {
  const int leaf = uncoded(id);
  return node(leaf).kind == Kind::kLeaf && operands(leaf)[0] == rank;
}

// The rank of a leaf, scaled or not; -1 for anything else.
int Expressions::leaf_rank(int id) const {
  if (node(id).kind == Kind::kScaled) {
    id = operands(id)[0];
  }
  return node(id).kind == Kind::kLeaf ? operands(id)[0] : -1;
}

bool Expressions::is_canonical(int id, int ranks) const {
  if (ranks == 1) {
    return true;
  }
  if (node(id).kind != Kind::kReduction && node(id).kind != Kind::kFinishedReduction) {
    return false;
  }
  const auto list = operands(id);
  if (list.size() != static_cast<std::size_t>(ranks)) {
    return false;
  }
  // The first two may stand either way.
  const int a = leaf_rank(list[0]);
  const int b = leaf_rank(list[1]);
  if (std::min(a, b) != 0 || std::max(a, b) != 1) {
    return false;
  }
  for (std::size_t i = 2; i < list.size(); ++i) {
    if (leaf_rank(list[i]) != static_cast<int>(i)) {
      return false;
    }
  }
  return true;
}

}  // namespace sennit
