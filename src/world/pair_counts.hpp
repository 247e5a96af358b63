// Pair counts: in calls whose lengths vary, how many elements each rank sends to and expects from
// each other. Only the two ranks of a pair know its count, so it is no part of the words that all
// ranks compare; a message of another length has another fingerprint and is never taken (see
// channel::with_length). The error word is where the two can read what the other meant.
#pragma once

#include "world/operation.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sennit {

// One rank's counts in one call, by peer.
struct PairCounts {
  std::vector<std::uint64_t> sent;
  std::vector<std::uint64_t> expected;
};

PairCounts pair_counts(const Operation& operation, int rank, int ranks);

// The counts of the last calls of all ranks, in shared memory. They keep the rhythm of the words of
// StatusLine: written before the call is announced there, and valid for a reader who finds that the
// rank is at most two calls on, before and after reading.
class PairCountTable {
 public:
  static std::size_t bytes(int ranks);

  // `base` is zeroed memory of that size.
  PairCountTable(std::byte* base, int ranks)
      : counts_(reinterpret_cast<std::atomic<std::uint64_t>*>(base)), ranks_(ranks) {}

  void publish(int rank, std::uint64_t call, const PairCounts& counts) const;

  // What `rank` says that it sends to `peer`, and that it expects from there.
  struct Pair {
    std::uint64_t sent = 0;
    std::uint64_t expected = 0;
  };
  [[nodiscard]] Pair read(int rank, std::uint64_t call, int peer) const;

 private:
  [[nodiscard]] std::atomic<std::uint64_t>* at(int rank, std::uint64_t call, int peer) const;

  std::atomic<std::uint64_t>* counts_;
  int ranks_;
};

}  // namespace sennit
