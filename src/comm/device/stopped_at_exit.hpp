// StoppedAtExit: a thread that looks at memory of CUDA. Programs end without destroying their
// communicators, and CUDA takes that memory away then; the thread is stopped before.
#pragma once

#include <functional>

namespace sennit {

class StoppedAtExit {
 public:
  // `stop` ends the thread and waits for it; it may be called again.
  explicit StoppedAtExit(std::function<void()> stop);
  // From here on `stop` is not called. The thread has not ended by that.
  ~StoppedAtExit();
  StoppedAtExit(const StoppedAtExit&) = delete;
  StoppedAtExit& operator=(const StoppedAtExit&) = delete;

 private:
  friend void stop_all_threads();
  std::function<void()> stop_;
};

}  // namespace sennit
