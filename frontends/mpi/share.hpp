// Share: what ran on the library, and what was passed on to the MPI and why.
#pragma once

#include "counted_call.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

namespace sennit_mpi {

class Share {
 public:
  void take(std::uint64_t calls, std::uint64_t bytes) {
    calls_.fetch_add(calls, std::memory_order_relaxed);
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  // Calls whose buffers in GPU memory GPUs used; and those, also messages and calls that are passed
  // on, for which they were copied through host memory.
  void take_on_gpus() { on_gpus_.fetch_add(1, std::memory_order_relaxed); }
  void copy() { copied_.fetch_add(1, std::memory_order_relaxed); }
  // The first reason is kept.
  void pass(const char* why) {
    CountedCall::pass(why);
    if (passed_on_.fetch_add(1, std::memory_order_relaxed) == 0) {
      const std::scoped_lock lock(mutex_);
      why_ = why;
    }
  }
  // "N calls of M bytes ran on Sennit, K were passed on (the first: several nodes)"; where buffers
  // were in GPU memory: "; GPU buffers: G calls by GPUs, C through host memory".
  [[nodiscard]] std::string text() const;

 private:
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::uint64_t> passed_on_{0};
  std::atomic<std::uint64_t> on_gpus_{0};
  std::atomic<std::uint64_t> copied_{0};
  mutable std::mutex mutex_;
  std::string why_;
};

}  // namespace sennit_mpi
