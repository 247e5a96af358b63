#include "exec/stream/leader_wait.hpp"

#include "exec/stream/leader_operations.hpp"

#include <atomic>
#include <thread>

namespace sennit::stream {

// Twice what the leader took for small calls on an H100 (15 us and 1 a rank), and memory at two
// thirds of the rate of a copy there.
std::chrono::nanoseconds leader_patience(int ranks, std::int64_t bytes) {
  constexpr std::int64_t kBytesPerNs = 2000;
  constexpr std::chrono::nanoseconds kMost = std::chrono::milliseconds(1);
  const std::chrono::nanoseconds patience =
      std::chrono::microseconds(20 + 5 * ranks) + std::chrono::nanoseconds(bytes / kBytesPerNs);
  return patience <= kMost ? patience : std::chrono::nanoseconds(0);
}

std::chrono::nanoseconds idle_patience(int ranks) {
  return std::chrono::microseconds(50 + 10 * ranks);
}

bool await_leader(RankWords& own, std::chrono::steady_clock::time_point until) {
  constexpr int kSpins = 200;
  // Partner: the store of the leader's stream (append_by_leader), behind all of its work.
  const std::atomic_ref done(own.done[kLeader][kLeadersChannel]);
  for (int spins = 1; done.load(std::memory_order_acquire) != kFull; ++spins) {
    if (spins % kSpins == 0) {
      if (std::chrono::steady_clock::now() >= until) {
        return false;
      }
      std::this_thread::yield();
    }
  }
  done.store(kFree, std::memory_order_relaxed);
  return true;
}

}  // namespace sennit::stream
