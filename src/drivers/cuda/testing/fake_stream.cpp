#include "drivers/cuda/testing/fake_stream.hpp"

#include <utility>

namespace sennit {

FakeQueue::~FakeQueue() {
  thread_.request_stop();
  changed_.notify_all();
}

void FakeQueue::put(Work work) {
  {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(std::move(work));
  }
  changed_.notify_all();
}

void FakeQueue::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_.empty() && !busy_; });
}

bool FakeQueue::is_idle() {
  const std::scoped_lock lock(mutex_);
  return waiting_.empty() && !busy_;
}

void FakeQueue::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return !waiting_.empty(); }) && !stop.stop_requested()) {
    const Work next = std::move(waiting_.front());
    waiting_.pop_front();
    busy_ = true;
    lock.unlock();
    next(stop);
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace sennit
