// CallComparison: finds out, from the lines of all ranks, that they have made different collectives
// under one number. Their kernels would wait for each other until the deadline.
#pragma once

#include "world/watch.hpp"
#include "world/world.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace sennit {

class CallComparison {
 public:
  explicit CallComparison(const World& world)
      : world_(world), compared_(static_cast<std::size_t>(world.size())) {}

  // Compares the calls that this rank and others have made since the last question.
  std::optional<Verdict> find_difference();

 private:
  const World& world_;
  std::vector<std::uint64_t> compared_;  // by rank: the last call found equal
  std::optional<Clock::time_point> differs_since_;
};

}  // namespace sennit
