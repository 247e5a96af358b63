#include "world/pair_counts.hpp"

#include "world/status_line.hpp"

#include <tuple>

namespace sennit {
namespace {

constexpr std::size_t kCallsKept = std::tuple_size_v<decltype(StatusLine::calls)>;

}  // namespace

PairCounts pair_counts(const Operation& operation, int rank, int ranks) {
  PairCounts counts;
  for (int peer = 0; peer < ranks; ++peer) {
    counts.sent.push_back(static_cast<std::uint64_t>(sent_to(operation, rank, peer)));
    counts.expected.push_back(static_cast<std::uint64_t>(expected_from(operation, rank, peer)));
  }
  return counts;
}

std::size_t PairCountTable::bytes(int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  return kCallsKept * n * n * 2 * sizeof(std::uint64_t);
}

std::atomic<std::uint64_t>* PairCountTable::at(int rank, std::uint64_t call, int peer) const {
  const auto n = static_cast<std::size_t>(ranks_);
  const std::size_t row = static_cast<std::size_t>(rank) * kCallsKept + call % kCallsKept;
  return counts_ + 2 * (row * n + static_cast<std::size_t>(peer));
}

void PairCountTable::publish(int rank, std::uint64_t call, const PairCounts& counts) const {
  for (std::size_t peer = 0; peer < counts.sent.size(); ++peer) {
    std::atomic<std::uint64_t>* const pair = at(rank, call, static_cast<int>(peer));
    pair[0].store(counts.sent[peer], std::memory_order_release);
    pair[1].store(counts.expected[peer], std::memory_order_release);
  }
}

PairCountTable::Pair PairCountTable::read(int rank, std::uint64_t call, int peer) const {
  const std::atomic<std::uint64_t>* const pair = at(rank, call, peer);
  return {.sent = pair[0].load(std::memory_order_acquire),
          .expected = pair[1].load(std::memory_order_acquire)};
}

}  // namespace sennit
