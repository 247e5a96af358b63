#include "comm/moves.hpp"

namespace sennit {

void Moves::count(const World& world, Clock::time_point now) {
  constexpr std::chrono::milliseconds kInterval{40};
  if (now < next_) {
    return;
  }
  next_ = now + kInterval;
  world.my_line().moves.store(here_, std::memory_order_relaxed);
  std::uint64_t sum = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    sum += world.line(rank).moves.load(std::memory_order_relaxed);
  }
  if (sum != everywhere_) {
    everywhere_ = sum;
    moved_at_ = now;
  }
}

std::optional<double> Moves::idle_s(Clock::time_point begin) const {
  // What other ranks moved in earlier calls is seen up to two intervals later.
  constexpr std::chrono::milliseconds kSettling{100};
  return moved_at_ > begin + kSettling
             ? std::optional(std::chrono::duration<double>(Clock::now() - moved_at_).count())
             : std::nullopt;
}

}  // namespace sennit
