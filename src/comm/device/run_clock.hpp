// RunClock: for how long a run has been seen to run, from the one word in which its streams say
// whether it does (exec/stream/words.hpp). A watcher asks again and again.
#pragma once

#include "exec/stream/words.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace sennit {

class RunClock {
 public:
  using Clock = std::chrono::steady_clock;

  // None when nothing has been running all the time since the last question.
  std::optional<Clock::duration> ask(std::uint64_t& word) {
    std::uint64_t found = stream::kRunning;
    if (std::atomic_ref(word).compare_exchange_strong(
            found, stream::kSeen, std::memory_order_acq_rel)) {
      seen_at_ = Clock::now();
      return std::nullopt;
    }
    return found == stream::kSeen ? std::optional(Clock::now() - seen_at_) : std::nullopt;
  }

 private:
  Clock::time_point seen_at_;
};

}  // namespace sennit
