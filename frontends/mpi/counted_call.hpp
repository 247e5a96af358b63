// CountedCall: a call of the program as `sennit run` counts it: what it is named, how long it took,
// and whether it was passed on.
#pragma once

#include "sennit/sennit.h"
#include "sennit/tools.h"

#include <chrono>
#include <cstddef>
#include <utility>

namespace sennit_mpi {

class CountedCall {
 public:
  explicit CountedCall(const char* name) {
    static const bool kAreCounted = sennit_tool_counts() != 0;
    if (kAreCounted) {
      name_ = name;
      outer_ = std::exchange(current, this);
      begin_ = Clock::now();
    }
  }
  ~CountedCall() {
    if (name_ != nullptr) {
      const std::chrono::duration<double> took = Clock::now() - begin_;
      current = outer_;
      sennit_tool_count(name_, bytes_, took.count(), why_, comm_);
    }
  }
  CountedCall(const CountedCall&) = delete;
  CountedCall& operator=(const CountedCall&) = delete;

  // Of this thread's call, if it is counted. `why` lives as long as its communicator.
  static void pass(const char* why) {
    if (current != nullptr) {
      current->why_ = why;
    }
  }
  // `comm` is there until the call has ended.
  static void take(std::size_t bytes, sennit_comm_t comm) {
    if (current != nullptr) {
      current->bytes_ = bytes;
      current->comm_ = comm;
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  static inline thread_local CountedCall* current = nullptr;

  const char* name_ = nullptr;  // null: not counted
  const char* why_ = nullptr;
  std::size_t bytes_ = 0;
  sennit_comm_t comm_ = nullptr;
  CountedCall* outer_ = nullptr;
  Clock::time_point begin_;
};

}  // namespace sennit_mpi
