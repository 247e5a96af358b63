// CrossingThread: the calls of host ranks between nodes, one part of a Crossing after the other. A
// thread makes each as soon as the stream of its GPU call has copied the data into its slot, and
// then lets the stream go on.
//
// After a failure it makes no more calls, and lets streams go on as they come. Parts of calls run
// in their order; a replay of a graph that is there runs first, since the stream has come to it.
#pragma once

#include "comm/communicator.hpp"
#include "comm/device/stopped_at_exit.hpp"
#include "comm/nodes/crossing_slots.hpp"
#include "comm/progress_engine.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace sennit {

class CrossingThread {
 public:
  // Joins a communicator of host ranks, on the thread that is going to make its calls.
  using Join = std::function<Result<std::shared_ptr<Communicator>>()>;
  struct Options {
    std::string name;  // of the communicator of GPU ranks
    Join join_all;
    Join join_counterparts{};  // empty: these are all
    // By rank among the counterparts: the rank among all.
    std::vector<int> counterparts;
    // Why the GPU calls of this node cannot go on; ok while they can.
    std::function<Status()> trouble_in_node;
    // The communicator has failed: GPU calls of this node have to end.
    std::function<void()> end_node;
  };

  explicit CrossingThread(Options options);
  ~CrossingThread();
  CrossingThread(const CrossingThread&) = delete;
  CrossingThread& operator=(const CrossingThread&) = delete;

  // Waits until both communicators are there, or one cannot be joined.
  Status await_join();
  // From here on `trouble_in_node` and `end_node` are asked.
  void start_watching() { is_watching_ = true; }

  // The program of a call, found and checked; no other rank sees it.
  Result<std::shared_ptr<Work>> prepare(const Operation& operation, bool among_counterparts);

  struct Part {
    std::uint64_t number = 0;
    CrossingSlots* slots = nullptr;  // lives until the part has ended
    struct Call {
      std::shared_ptr<Work> work;
      bool among_counterparts = false;
    };
    std::vector<Call> calls;  // at once
    bool is_replay = false;   // its stream has come to it, and its works were made before
  };
  // Parts have ascending numbers, but for replays.
  void post(Part part);

  [[nodiscard]] Status failure();
  // The same once the GPU calls of this node have failed, with `why`: as the thread explains it.
  Status failure_of_node(const Status& why);
  // The communicator has failed here: ends it on other ranks, too. What it has failed with, which
  // may be something earlier.
  Status fail(const Status& why);
  // While finalize() waits: parts that have not ended by then are given up.
  void abandon_at(Clock::time_point when);
  // Ends the thread, also if streams never come to their parts.
  void give_up();
  // Says on all ranks that this one makes no more calls, and ends the thread after all parts.
  void stop();
  [[nodiscard]] bool is_running() const { return thread_.joinable(); }

 private:
  [[nodiscard]] const std::shared_ptr<Communicator>& comm_of(bool among_counterparts) const {
    return among_counterparts && counterparts_ != nullptr ? counterparts_ : all_;
  }
  void run(const std::stop_token& stop);
  Status join();
  std::optional<Part> next(const std::stop_token& stop);
  std::optional<Part> take_begun();
  void make_calls(Part& part);
  void look(bool is_outstanding);
  [[nodiscard]] Status in_ranks_of_all(const Status& status, bool among_counterparts) const;
  [[nodiscard]] Status explain(const Status& status) const;
  void leave();
  void end_thread();

  Options options_;
  std::shared_ptr<Communicator> all_;
  std::shared_ptr<Communicator> counterparts_;
  std::shared_ptr<ProgressEngine> engine_;
  std::promise<Status> joined_;
  std::atomic<bool> is_watching_{false};
  std::atomic<bool> gives_up_{false};

  std::mutex mutex_;
  std::condition_variable_any has_part_;
  std::condition_variable has_failed_;
  std::deque<Part> parts_;
  std::deque<Part> replays_;
  Status failure_;
  std::optional<Clock::time_point> abandon_at_;

  std::jthread thread_;
  std::optional<StoppedAtExit> stopped_at_exit_;
};

}  // namespace sennit
