// For tests without a GPU: how the waits of a kernel end (warp.cuh). It leaves when its error word
// says so or its deadline has passed, and says on the error word why.
#pragma once

#include "memory/fifo.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace sennit::sm {

class FakeWait {
 public:
  // The deadline, in nanoseconds, is that of the whole call; 0: none. `error_word` may be null:
  // nobody ends a wait then.
  FakeWait(ErrorWord* error_word, std::uint64_t deadline_ns)
      : error_word_(error_word), deadline_(deadline_ns) {}

  [[nodiscard]] bool is_alive() const { return alive_; }

  // Until it is there, or the kernel leaves; an error word names the peer only where it is known
  // here.
  template <typename Predicate>
  void await(Predicate is_there, int peer = -1) {
    while (alive_ && !is_there()) {
      look_up(peer);
    }
  }
  template <typename Predicate>
  void await(std::uint64_t& word, Predicate is_there) {
    await([&] { return is_there(std::atomic_ref(word).load(std::memory_order_acquire)); });
  }

 private:
  void look_up(int peer) {
    std::this_thread::yield();
    if (error_word_ == nullptr) {
      return;
    }
    if (std::atomic_ref(error_word_->abort).load(std::memory_order_acquire) != 0) {
      leave(Trouble::kAborted);
    } else if (deadline_.count() != 0 && std::chrono::steady_clock::now() - begin_ > deadline_) {
      if (peer >= 0) {  // several lanes may be late at once
        std::atomic_ref(error_word_->peer).store(static_cast<std::uint32_t>(peer));
      }
      leave(Trouble::kDeadline);
    }
  }

  void leave(Trouble trouble) {
    auto none = Trouble::kNone;
    std::atomic_ref(error_word_->trouble).compare_exchange_strong(none, trouble);
    std::atomic_ref(error_word_->abort).store(kAbortedByKernel, std::memory_order_release);
    alive_ = false;
  }

  ErrorWord* error_word_;
  std::chrono::nanoseconds deadline_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  bool alive_ = true;
};

}  // namespace sennit::sm
