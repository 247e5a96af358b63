#include "comm/nodes/crossing_thread.hpp"

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

}  // namespace

CrossingThread::CrossingThread(Options options) : options_(std::move(options)) {
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  stopped_at_exit_.emplace([this] {
    thread_.request_stop();
    if (thread_.joinable()) {
      thread_.join();
    }
  });
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
    while (const std::optional<Part> part = next(stop)) {
      await_begin(*part);
      if (failure().ok()) {
        make_calls(*part);
      }
      part->slots->end(part->number);
    }
  }
  leave();
}

// Nothing once the thread is to end and all parts have.
std::optional<CrossingThread::Part> CrossingThread::next(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (parts_.empty()) {
    if (stop.stop_requested()) {
      return std::nullopt;
    }
    if (!has_part_.wait_for(lock, stop, kLookInterval, [&] { return !parts_.empty(); })) {
      lock.unlock();
      look(/*is_outstanding=*/false);
      lock.lock();
    }
  }
  Part part = std::move(parts_.front());
  parts_.pop_front();
  return part;
}

void CrossingThread::await_begin(const Part& part) {
  const Clock::time_point begin = Clock::now();
  Clock::time_point next_look = begin + kLookInterval;
  while (!part.slots->has_begun(part.number)) {
    const Clock::time_point now = Clock::now();
    if (now >= next_look) {
      look(/*is_outstanding=*/true);
      next_look = now + kLookInterval;
    }
    if (now - begin < kPollTime) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kPollInterval);
    }
  }
}

void CrossingThread::make_calls(const Part& part) {
  for (const Part::Call& call : part.calls) {
    const auto guard = engine_->lock();
    engine_->post(*comm_of(call.among_counterparts), call.work);
  }
  for (const Part::Call& call : part.calls) {
    while (!engine_->run_until(*comm_of(call.among_counterparts), *call.work, kLookInterval)) {
      look(/*is_outstanding=*/true);
    }
  }
  for (const Part::Call& call : part.calls) {
    if (!call.work->status.ok()) {
      (void)fail(in_ranks_of_all(call.work->status, call.among_counterparts));
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
  const Status trouble =
      is_late ? sennit::fail(Code::kInvalidUsage,
                             "finalize of communicator '{}' abandoned calls that had not ended",
                             options_.name)
              : options_.trouble_in_node();
  if (!trouble.ok()) {
    (void)fail(trouble);
  }
}

Status CrossingThread::in_ranks_of_all(const Status& status, bool among_counterparts) const {
  if (!among_counterparts) {
    return status;
  }
  ErrorDetail detail = status.detail();
  for (int& rank : detail.blamed_ranks) {
    rank = options_.counterparts.at(static_cast<std::size_t>(rank));
  }
  return {status.code(), status.message(), std::move(detail)};
}

Result<std::shared_ptr<Work>> CrossingThread::prepare(const Operation& operation,
                                                      bool among_counterparts) {
  const auto guard = engine_->lock();
  return comm_of(among_counterparts)->prepare(operation);
}

void CrossingThread::post(Part part) {
  {
    const std::scoped_lock lock(mutex_);
    parts_.push_back(std::move(part));
  }
  has_part_.notify_one();
}

Status CrossingThread::failure() {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

Status CrossingThread::fail(const Status& why) {
  {
    const std::scoped_lock lock(mutex_);
    if (!failure_.ok()) {
      return failure_;
    }
    failure_ = why;
  }
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

void CrossingThread::stop() {
  stopped_at_exit_.reset();
  thread_.request_stop();
  if (thread_.joinable()) {
    thread_.join();
  }
}

}  // namespace sennit
