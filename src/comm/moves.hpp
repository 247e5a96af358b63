// Moves: whether data of collectives moves, on this rank or another. It distinguishes a late
// call from one that hangs. Of a send or recv its own rank sees all: it waits for each slot.
#pragma once

#include "world/world.hpp"

#include <cstdint>
#include <optional>

namespace sennit {

class Moves {
 public:
  // A round of progress in which data moved here.
  void add() { ++here_; }
  // Reports to the others, and asks them, every now and then.
  void count(const World& world, Clock::time_point now);
  // Seconds since data was last found to have moved; nothing: it has not since `begin`.
  [[nodiscard]] std::optional<double> idle_s(Clock::time_point begin) const;

 private:
  std::uint64_t here_ = 0;
  std::uint64_t everywhere_ = 0;  // as last counted
  Clock::time_point moved_at_;    // when that was last found to have grown
  Clock::time_point next_;
};

}  // namespace sennit
