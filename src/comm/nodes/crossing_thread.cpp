#include "comm/nodes/crossing_thread.hpp"

#include "comm/error_contract.hpp"

#include <chrono>
#include <utility>

namespace sennit {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// A stream may come to the part at any moment, or compute for long before.
constexpr Clock::duration kPollTime = microseconds(200);
constexpr Clock::duration kPollInterval = microseconds(20);
// Between looks at what may end the calls; a dead rank must be reported within seconds.
constexpr Clock::duration kLookInterval = milliseconds(20);
// Until this rank knows of a death on another node, which others may know first.
constexpr Clock::duration kNewsTime = milliseconds(300);
constexpr Clock::duration kNewsInterval = milliseconds(5);

// Ranks that have died, and had not given up before.
std::vector<int> find_dead(const World& world) {
  std::vector<int> dead = world.peers().dead();
  std::erase_if(dead, [&](int rank) {
    return world.line(rank).state.load(std::memory_order_acquire) != RankState::kActive;
  });
  return dead;
}

}  // namespace

CrossingThread::CrossingThread(Options options) : options_(std::move(options)) {
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  stopped_at_exit_.emplace([this] { give_up(); });
}

CrossingThread::~CrossingThread() { stop(); }

Status CrossingThread::await_join() { return joined_.get_future().get(); }

Status CrossingThread::join() {
  engine_ = ProgressEngine::of_this_thread();
  SENNIT_ASSIGN_OR_RETURN(all_, options_.join_all());
  engine_->attach(all_);
  if (options_.join_counterparts) {
    SENNIT_ASSIGN_OR_RETURN(counterparts_, options_.join_counterparts());
    engine_->attach(counterparts_);
  }
  return {};
}

void CrossingThread::run(const std::stop_token& stop) {
  const Status joined = join();
  joined_.set_value(joined);
  if (joined.ok()) {
    while (std::optional<Part> part = next(stop)) {
      // Kernels that could not end well have left, and what they leave must not go to other nodes.
      look(/*is_outstanding=*/true);
      if (failure().ok()) {
        make_calls(*part);
      }
      part->is_replay ? part->slots->set_replayed(part->number, 1) : part->slots->end(part->number);
    }
  }
  leave();
}

// Under mutex_.
std::optional<CrossingThread::Part> CrossingThread::take_begun() {
  const auto take = [](std::deque<Part>& parts) {
    Part part = std::move(parts.front());
    parts.pop_front();
    return part;
  };
  if (!replays_.empty()) {
    return take(replays_);
  }
  const bool has_begun = !parts_.empty() && parts_.front().slots->has_begun(parts_.front().number);
  return has_begun ? std::optional(take(parts_)) : std::nullopt;
}

// Nothing once the thread is to end and all parts have.
std::optional<CrossingThread::Part> CrossingThread::next(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  Clock::time_point idle_until = Clock::now();
  Clock::time_point next_look = idle_until + kLookInterval;
  while (!gives_up_) {
    if (std::optional<Part> part = take_begun()) {
      return part;
    }
    const bool is_outstanding = !parts_.empty();
    if (!is_outstanding && stop.stop_requested()) {
      break;
    }
    if (!is_outstanding) {
      has_part_.wait_for(
          lock, stop, kLookInterval, [&] { return !parts_.empty() || !replays_.empty(); });
      idle_until = Clock::now();
    }
    lock.unlock();
    const Clock::time_point now = Clock::now();
    if (now >= next_look) {
      look(is_outstanding);
      next_look = now + kLookInterval;
    }
    if (is_outstanding && now - idle_until < kPollTime) {
      std::this_thread::yield();
    } else if (is_outstanding) {
      std::this_thread::sleep_for(kPollInterval);
    }
    lock.lock();
  }
  return std::nullopt;
}

void CrossingThread::make_calls(Part& part) {
  for (Part::Call& call : part.calls) {
    if (part.is_replay) {
      auto again = prepare(call.work->operation, call.among_counterparts);
      if (!again.ok()) {
        (void)fail(again.status());
        return;
      }
      call.work = *std::move(again);
    }
    const auto guard = engine_->lock();
    engine_->post(*comm_of(call.among_counterparts), call.work);
  }
  for (const Part::Call& call : part.calls) {
    Communicator& comm = *comm_of(call.among_counterparts);
    while (!engine_->run_until(comm, *call.work, kLookInterval)) {
      look(/*is_outstanding=*/true);
      if (gives_up_) {
        comm.abort();  // ends the work
      }
    }
  }
  for (const Part::Call& call : part.calls) {
    if (!call.work->status.ok()) {
      (void)fail(explain(in_ranks_of_all(call.work->status, call.among_counterparts)));
    }
  }
}

// Where a rank of this node has failed, ranks of other nodes learn it from this one.
void CrossingThread::look(bool is_outstanding) {
  if (!failure().ok() || !is_watching_) {
    return;
  }
  const bool is_late = [&] {
    const std::scoped_lock lock(mutex_);
    return is_outstanding && abandon_at_ && Clock::now() > *abandon_at_;
  }();
  if (is_late) {
    (void)fail(sennit::fail(Code::kInvalidUsage,
                            "finalize of communicator '{}' abandoned calls that had not ended",
                            options_.name));
  } else if (const Status trouble = options_.trouble_in_node(); !trouble.ok()) {
    (void)fail(explain(trouble));
  }
}

Status CrossingThread::in_ranks_of_all(const Status& status, bool among_counterparts) const {
  if (!among_counterparts || counterparts_ == nullptr) {
    return status;
  }
  ErrorDetail detail = status.detail();
  for (int& rank : detail.blamed_ranks) {
    rank = options_.counterparts.at(static_cast<std::size_t>(rank));
  }
  return {status.code(), status.message(), std::move(detail)};
}

// Calls of a node, and of counterparts, have few of the ranks. What ends them may be that one of
// the others has died, and a rank that knew has given up.
Status CrossingThread::explain(const Status& status) const {
  World& world = all_->world();
  const Clock::time_point end =
      Clock::now() + (status.code() == Code::kAborted ? kNewsTime : Clock::duration());
  std::vector<int> dead = find_dead(world);
  while (dead.empty() && Clock::now() < end) {
    world.ask_nodes();
    std::this_thread::sleep_for(kNewsInterval);
    dead = find_dead(world);
  }
  return dead.empty()
             ? status
             : gpu_error_contract({.code = Code::kRankFailed,
                                   .blamed_ranks = dead,
                                   .evidence = world.peers().describe(dead.front()) + " died"},
                                  world,
                                  options_.name);
}

Result<std::shared_ptr<Work>> CrossingThread::prepare(const Operation& operation,
                                                      bool among_counterparts) {
  auto guard = engine_->lock();
  Communicator& comm = *comm_of(among_counterparts);
  auto prepared = comm.prepare(operation);
  if (prepared.ok() || comm.failure().ok()) {
    return prepared;
  }
  guard.unlock();  // the thread may be about to explain the failure
  return failure_of_node(in_ranks_of_all(prepared.status(), among_counterparts));
}

void CrossingThread::post(Part part) {
  {
    const std::scoped_lock lock(mutex_);
    (part.is_replay ? replays_ : parts_).push_back(std::move(part));
  }
  has_part_.notify_one();
}

Status CrossingThread::failure() {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

Status CrossingThread::failure_of_node(const Status& why) {
  {
    std::unique_lock lock(mutex_);
    has_failed_.wait_for(lock, kNewsTime + 2 * kLookInterval, [&] { return !failure_.ok(); });
  }
  return fail(why);
}

Status CrossingThread::fail(const Status& why) {
  {
    const std::scoped_lock lock(mutex_);
    if (!failure_.ok()) {
      return failure_;
    }
    failure_ = why;
  }
  has_failed_.notify_all();
  for (const auto& comm : {all_, counterparts_}) {
    if (comm != nullptr) {
      comm->abort();
    }
  }
  options_.end_node();
  return why;
}

void CrossingThread::abandon_at(Clock::time_point when) {
  const std::scoped_lock lock(mutex_);
  abandon_at_ = when;
}

// A communicator belongs to the engine of the thread that made it.
void CrossingThread::leave() {
  for (const auto& comm : {all_, counterparts_}) {
    if (comm != nullptr) {
      const auto guard = engine_->lock();
      comm->finalize();
    }
  }
  for (auto* comm : {&all_, &counterparts_}) {
    if (*comm != nullptr) {
      engine_->detach(**comm);
    }
  }
}

void CrossingThread::give_up() {
  gives_up_ = true;
  end_thread();
}

void CrossingThread::stop() {
  stopped_at_exit_.reset();
  end_thread();
}

void CrossingThread::end_thread() {
  thread_.request_stop();
  if (thread_.joinable()) {
    thread_.join();
  }
}

}  // namespace sennit
