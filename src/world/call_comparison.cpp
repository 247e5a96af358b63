#include "world/call_comparison.hpp"

#include <algorithm>
#include <utility>

namespace sennit {

std::optional<Verdict> CallComparison::find_difference() {
  const DeviceLine& mine = world_.device_line(world_.rank());
  const std::uint64_t made = mine.collectives.entered.load(std::memory_order_acquire);
  for (int rank = 0; rank < world_.size(); ++rank) {
    const DeviceLine& theirs = world_.device_line(rank);
    std::uint64_t& compared = compared_[static_cast<std::size_t>(rank)];
    const std::uint64_t last =
        std::min(made, theirs.collectives.entered.load(std::memory_order_acquire));
    for (; rank != world_.rank() && compared < last; ++compared) {
      const std::uint64_t call = compared + 1;
      CallWords own;
      CallWords other;
      // Calls so old that they cannot be read have ended long ago.
      if (!mine.collectives.read(call, own) || !theirs.collectives.read(call, other) ||
          own == other) {
        continue;
      }
      auto verdict = find_disagreement(world_, call, [&](int at, CallWords& words) {
        return world_.device_line(at).collectives.read(call, words);
      });
      differs_since_ = differs_since_ ? differs_since_ : Clock::now();
      const bool is_early = Clock::now() - *differs_since_ < kUndecided;
      return verdict && verdict->is_undecided && is_early ? std::nullopt : std::move(verdict);
    }
  }
  return std::nullopt;
}

}  // namespace sennit
