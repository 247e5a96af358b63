// FakeWait, for tests without a GPU: how the waits of a kernel end (exec/sm/warp.cuh).
#pragma once

#include "exec/sm/arena.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace sennit::tests {

class FakeWait {
 public:
  // The deadline, in nanoseconds, is that of the whole call; 0: none.
  FakeWait(sm::Board* board, std::uint64_t deadline_ns) : board_(board), deadline_(deadline_ns) {}

  [[nodiscard]] bool alive() const { return alive_; }

  // Says on the board why it leaves, as kernels do.
  bool may_go_on() {
    std::this_thread::yield();
    if (std::atomic_ref(board_->abort).load(std::memory_order_acquire) != 0) {
      leave(sm::Trouble::kAborted);
    } else if (deadline_.count() != 0 && std::chrono::steady_clock::now() - begin_ > deadline_) {
      leave(sm::Trouble::kDeadline);
    }
    return alive_;
  }

 private:
  void leave(sm::Trouble trouble) {
    auto none = sm::Trouble::kNone;
    std::atomic_ref(board_->trouble).compare_exchange_strong(none, trouble);
    std::atomic_ref(board_->abort).store(sm::kAbortedByKernel, std::memory_order_release);
    alive_ = false;
  }

  sm::Board* board_;
  std::chrono::nanoseconds deadline_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  bool alive_ = true;
};

}  // namespace sennit::tests
