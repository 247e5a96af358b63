// A point in time by which something has to be done, and how to wait until then.
#pragma once

#include "base/seconds.hpp"

#include <algorithm>
#include <chrono>

namespace sennit {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Deadline(double timeout_s)
      : start_(Clock::now()), end_(start_ + clock_span(timeout_s)) {}

  [[nodiscard]] Clock::time_point end() const { return end_; }
  [[nodiscard]] bool passed() const { return Clock::now() >= end_; }
  [[nodiscard]] double elapsed_s() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }
  // For poll(2): milliseconds until `time` (at most a minute), rounded up so that nobody wakes
  // early.
  static int poll_ms(Clock::time_point time) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(time - Clock::now()).count();
    return static_cast<int>(std::clamp<decltype(left)>(left, 0, 60'000));
  }

 private:
  Clock::time_point start_;
  Clock::time_point end_;
};

// Says when to warn about a long wait: after 5 s and at each doubling.
class PatienceTimer {
 public:
  bool due(double elapsed_s) {
    if (elapsed_s < next_s_) {
      return false;
    }
    next_s_ *= 2;
    return true;
  }

 private:
  double next_s_ = 5.0;
};

}  // namespace sennit
