// MessageComparison: finds out, from the lines of this rank and each other, that the two ends of a
// message mean different ones, or that one of them will never come. Kernels and streams would wait
// for each other until the deadline.
#pragma once

#include "world/watch.hpp"
#include "world/world.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace sennit {

class MessageComparison {
 public:
  explicit MessageComparison(const World& world)
      : world_(world), compared_(static_cast<std::size_t>(world.size())) {}

  // Compares the messages that both ends have called for since the last question.
  std::optional<Verdict> find_difference();

  // Of a rank that has been seen to have finalized: a message between this rank and it that it did
  // not call for, and never will.
  [[nodiscard]] std::optional<Verdict> find_missing(int finalized) const;

 private:
  // Messages of a pair that were compared so far, by direction.
  struct Compared {
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
  };

  std::optional<Verdict> compare(int from, int to, std::uint64_t& compared) const;

  const World& world_;
  std::vector<Compared> compared_;  // by peer
};

}  // namespace sennit
