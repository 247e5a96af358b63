// Doorbell: how a rank that waits goes to sleep and is woken by whoever publishes something for it.
//
// The sleeper says that it sleeps, looks once more, and then waits on the futex; the publisher
// stores its word, and then looks whether the other sleeps. If both looks could overtake the stores
// before them, a wake-up would be lost. A publisher must be fast, a sleeper has time: so only the
// sleeper has a barrier, and it is one that the system makes on the publisher's core as well
// (membarrier). Where there is none, a sleeper wakes by itself every millisecond.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace sennit {

struct alignas(64) Doorbell {
  std::atomic<std::uint32_t> rings{0};
  std::atomic<std::uint32_t> sleepers{0};  // above 12 bits: the number of a WakeSocket, if any
};

// Lets barrier_on_all_cores() of other processes reach this one; once a process, before it
// publishes anything. False where the system has no such barrier.
bool take_part_in_barriers();

// Orders all that this thread has stored before all that it loads later, and the same on every core
// that runs a process that takes part. False where there is no such barrier.
bool barrier_on_all_cores();

// Wakes every sleeper, whether there is one or not.
void ring(Doorbell& bell);

// Returns when `word` is not `expected`, when it is woken, after `limit`, or for no reason at all.
void futex_wait(std::atomic<std::uint32_t>& word,
                std::uint32_t expected,
                std::chrono::nanoseconds limit);

// After publishing a word for the owner of `bell`.
inline void wake(Doorbell& bell) {
  // Keeps the compiler from moving the look up; partner: barrier_on_all_cores in sleep_on.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (bell.sleepers.load(std::memory_order_relaxed) != 0) {
    ring(bell);
  }
}

// Sleeps until the bell is rung, at most `limit`, unless `look_again()` returns true once it has
// been announced that this thread sleeps.
template <typename LookAgain>
void sleep_on(Doorbell& bell, std::chrono::nanoseconds limit, LookAgain&& look_again) {
  constexpr std::chrono::nanoseconds kUnsureSleep = std::chrono::milliseconds(1);
  const std::uint32_t seen = bell.rings.load(std::memory_order_seq_cst);
  bell.sleepers.fetch_add(1, std::memory_order_seq_cst);
  const bool is_sure = barrier_on_all_cores();
  if (!look_again()) {
    futex_wait(bell.rings, seen, is_sure || limit < kUnsureSleep ? limit : kUnsureSleep);
  }
  bell.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace sennit
