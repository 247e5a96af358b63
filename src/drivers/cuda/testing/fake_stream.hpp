// FakeStream: a queue of work and the thread that does it, in order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

namespace sennit {

class FakeGraph;

// Work in order, on a thread of its own. Several streams may share one.
class FakeQueue {
 public:
  FakeQueue() : thread_([this](const std::stop_token& stop) { work(stop); }) {}
  ~FakeQueue();
  FakeQueue(const FakeQueue&) = delete;
  FakeQueue& operator=(const FakeQueue&) = delete;

  // Work that waits asks `stopped` now and then, and leaves when it is true: a queue ends although
  // nobody will ever write the word that its work waits for.
  using Work = std::function<void(const std::stop_token& stopped)>;
  void put(Work work);
  void drain();
  [[nodiscard]] bool is_idle();

 private:
  void work(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Work> waiting_;
  bool busy_ = false;
  std::jthread thread_;
};

class FakeStream {
 public:
  FakeStream(int device, std::uint64_t id, std::shared_ptr<FakeQueue> queue)
      : device_(device), id_(id), queue_(std::move(queue)) {}

  // Of no other stream, also if one comes to lie where this one was.
  [[nodiscard]] std::uint64_t id() const { return id_; }
  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] FakeQueue& queue() { return *queue_; }
  [[nodiscard]] const std::shared_ptr<FakeQueue>& shared_queue() const { return queue_; }

  // The graph that takes this stream's work while it captures; null otherwise.
  FakeGraph* capture = nullptr;
  // Of its own, for timed events; its work outlives the stream. Touched by the queue's thread
  // alone.
  std::shared_ptr<double> now_us = std::make_shared<double>(0);
  // Something was put in since another capturing stream last waited for this one.
  bool has_unjoined_work = false;

 private:
  int device_;
  std::uint64_t id_;
  std::shared_ptr<FakeQueue> queue_;
};

// How often an event was recorded, and how many of those recordings have been reached. As with CUDA
// it may be destroyed before: what was recorded still takes place.
struct FakeEvent : std::enable_shared_from_this<FakeEvent> {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::uint64_t recorded = 0;
  std::uint64_t reached = 0;
  bool is_timed = false;
  std::map<std::uint64_t, double> at_us;  // of each recording that has been reached
  FakeStream* captured_in = nullptr;      // where it was last recorded in a capture
};

}  // namespace sennit
