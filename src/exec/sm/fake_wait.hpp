// For tests: how a kernel waits, on the host. It leaves when its board says so or its deadline has
// passed, and says on the board why.
#pragma once

#include "exec/sm/arena.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace sennit::sm {

class FakeWait {
 public:
  // Of a whole call. `board` may be null: nobody ends a wait then.
  FakeWait(Board* board, std::uint64_t deadline_ns) : board_(board), deadline_(deadline_ns) {}

  [[nodiscard]] bool is_alive() const { return alive_; }

  // Until the word is as it has to be, or the kernel leaves.
  template <typename Predicate>
  void await(std::uint64_t& word, Predicate is_there) {
    while (alive_ && !is_there(std::atomic_ref(word).load(std::memory_order_acquire))) {
      look_up();
    }
  }

 private:
  void look_up() {
    std::this_thread::yield();
    if (board_ == nullptr) {
      return;
    }
    const bool is_late =
        deadline_.count() != 0 && std::chrono::steady_clock::now() - begin_ > deadline_;
    if (std::atomic_ref(board_->abort).load(std::memory_order_acquire) == 0 && !is_late) {
      return;
    }
    auto none = Trouble::kNone;
    std::atomic_ref(board_->trouble)
        .compare_exchange_strong(none, is_late ? Trouble::kDeadline : Trouble::kAborted);
    std::atomic_ref(board_->abort).store(kAbortedByKernel, std::memory_order_release);
    alive_ = false;
  }

  Board* board_;
  std::chrono::nanoseconds deadline_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  bool alive_ = true;
};

}  // namespace sennit::sm
