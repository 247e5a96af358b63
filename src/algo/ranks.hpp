// Arithmetic on rank numbers that several algorithms share.
#pragma once

#include <cstdint>
#include <vector>

namespace sennit::algo {

// Element of a list that has one entry a rank (or a lane, or a child), by its plain number.
template <typename T>
const T& at(const std::vector<T>& list, int index) {
  return list.at(static_cast<std::size_t>(index));
}

// `value` modulo `ranks`, never negative: neighbours on a ring, and ranks relative to a root.
constexpr int wrap(int value, int ranks) { return (value % ranks + ranks) % ranks; }

// floor(log2(ranks)) and ceil(log2(ranks)), for ranks >= 1.
constexpr int floor_log2(int ranks) {
  int log = 0;
  while ((2 << log) <= ranks) {
    ++log;
  }
  return log;
}
constexpr int ceil_log2(int ranks) {
  return floor_log2(ranks) + ((1 << floor_log2(ranks)) < ranks ? 1 : 0);
}

// Closed forms that several rows share.
// One block from each rank to each other rank.
constexpr std::int64_t one_block_each_pair(int from, int to) { return from == to ? 0 : 1; }
// `blocks` from each rank to its successor on the ring.
constexpr std::int64_t blocks_to_successor(std::int64_t blocks, int ranks, int from, int to) {
  return from != to && to == wrap(from + 1, ranks) ? blocks : 0;
}

// The ranks other than `own`, nearest successor first. A sender that goes through its peers in this
// order writes to own + d in round d while nobody else does.
std::vector<int> successors(int own, int ranks);
// The ranks other than `own`, nearest predecessor first: who writes to `own` in round 1, 2, ...
std::vector<int> predecessors(int own, int ranks);

// The ranks other than `own`, in ascending order.
std::vector<int> others(int own, int ranks);
// Step::order of a reduction whose operands are the own block and then the messages of
// others(own, ranks): it sums in rank order, so that every rank forms the same expression.
std::vector<int> rank_order(int own, int ranks);

}  // namespace sennit::algo
