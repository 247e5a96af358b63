// Doorbell: how a rank that waits goes to sleep and is woken by whoever publishes something for it.
//
// The sleeper says that it sleeps, looks once more, and then waits on the futex; the publisher
// stores its word, and then looks whether the other sleeps. All four are sequentially consistent,
// so one of the two always sees the other, and no wake-up is lost.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace sennit {

struct alignas(64) Doorbell {
  std::atomic<std::uint32_t> rings{0};
  std::atomic<std::uint32_t> sleepers{0};
};

// Wakes every sleeper, whether there is one or not.
void ring(Doorbell& bell);

// Returns when `word` is not `expected`, when it is woken, after `limit`, or for no reason at all.
void futex_wait(std::atomic<std::uint32_t>& word,
                std::uint32_t expected,
                std::chrono::nanoseconds limit);

// After publishing a word for the owner of `bell`.
inline void wake(Doorbell& bell) {
  if (bell.sleepers.load(std::memory_order_seq_cst) != 0) {
    ring(bell);
  }
}

// Sleeps until the bell is rung, at most `limit`, unless `look_again()` returns true once it has
// been announced that this thread sleeps.
template <typename LookAgain>
void sleep_on(Doorbell& bell, std::chrono::nanoseconds limit, LookAgain&& look_again) {
  const std::uint32_t seen = bell.rings.load(std::memory_order_seq_cst);
  bell.sleepers.fetch_add(1, std::memory_order_seq_cst);
  if (!look_again()) {
    futex_wait(bell.rings, seen, limit);
  }
  bell.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace sennit
