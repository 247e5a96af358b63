// Stopwatch: the time of a call that `sennit run` counts.
#pragma once

#include "sennit/sennit.h"
#include "sennit/tools.h"

#include <chrono>
#include <cstddef>

namespace sennit_nccl {

class Stopwatch {
 public:
  explicit Stopwatch(const char* call) {
    static const bool kAreCounted = sennit_tool_counts() != 0;
    if (kAreCounted) {
      call_ = call;
      begin_ = Clock::now();
    }
  }

  // `why` it was passed on; null: it ran here, on `comm` where it is of one.
  void count(std::size_t bytes, const char* why, sennit_comm_t comm = nullptr) const {
    if (call_ != nullptr) {
      const std::chrono::duration<double> took = Clock::now() - begin_;
      sennit_tool_count(call_, bytes, took.count(), why, comm);
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  const char* call_ = nullptr;  // null: not counted
  Clock::time_point begin_;
};

}  // namespace sennit_nccl
