#include "host_work.hpp"

#include "unlocked.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace sennit::pytorch {
namespace {

using Clock = std::chrono::steady_clock;

// How long a wait runs before it looks for signals: short to a person, long to the machine.
constexpr double kSignalSlice_s = 0.05;

}  // namespace

Started::~Started() {
  for (const sennit_work_t work : works) {
    sennit_work_destroy(work);
  }
}

bool Started::can_end() const {
  return std::ranges::all_of(works, [](sennit_work_t work) {
    int done = 0;
    return sennit_work_test(work, &done) != SENNIT_OK || done != 0;
  });
}

sennit_status_t Started::wait(double timeout_s) {
  while (!works.empty()) {
    const sennit_status_t status = sennit_work_wait(works.back(), timeout_s);
    if (status != SENNIT_OK) {
      return status;
    }
    if (is_recv) {
      check(sennit_work_peer(works.back(), &source));
    }
    sennit_work_destroy(works.back());
    works.pop_back();
  }
  if (const auto last = std::exchange(finish, nullptr)) {
    last();
  }
  tensors = {};
  return SENNIT_OK;
}

void Dropped::add(Started started) {
  const std::lock_guard lock(mutex_);
  started_.push_back(std::move(started));
}

void Dropped::sweep() {
  const std::lock_guard lock(mutex_);
  std::erase_if(started_, [](Started& started) {
    return started.can_end() && started.wait(0.0) != SENNIT_IN_PROGRESS;
  });
}

void Dropped::clear() {
  const std::lock_guard lock(mutex_);
  started_.clear();
}

HostWork::HostWork(int rank,
                   sennit_comm_t comm,
                   std::shared_ptr<Dropped> dropped,
                   Operation& operation)
    : c10d::Work(rank, operation.type, operation.title, operation.inputs),
      comm_(comm),
      dropped_(std::move(dropped)) {}

HostWork::~HostWork() {
  if (!started_.works.empty() && !failure_) {
    const Unlocked unlocked;
    if (started_.can_end()) {
      started_.wait(0.0);
    } else {
      dropped_->add(std::move(started_));
    }
  }
}

void HostWork::start(Operation& operation, double deadline_s) {
  Calls calls(comm_, nullptr, deadline_s, &started_.works, std::move(operation.settings));
  started_.is_recv =
      operation.type == c10d::OpType::RECV || operation.type == c10d::OpType::RECVANYSOURCE;
  operation.start(calls);
  started_.tensors = {std::move(operation.inputs), std::move(operation.buffers), operation.outputs};
  started_.finish = std::move(operation.finish);
  outputs_ = std::move(operation.outputs);
}

int HostWork::sourceRank() const {
  if (started_.source < 0) {
    refuse(SENNIT_INVALID_USAGE, "there is no source: this is no recv that was waited for");
  }
  return started_.source;
}

bool HostWork::isCompleted() {
  const Unlocked unlocked;
  const std::lock_guard lock(progress_);
  if (!failure_ && !started_.has_ended() && started_.can_end()) {
    try {
      wait_until_end(kNoTimeout);
    } catch (...) {
      if (!failure_) {
        throw;
      }
      // It has ended: isSuccess and wait say how.
    }
  }
  return failure_ || started_.has_ended();
}

bool HostWork::wait(std::chrono::milliseconds timeout) {
  const Unlocked unlocked;
  const std::lock_guard lock(progress_);
  wait_until_end(timeout);
  return true;
}

void HostWork::wait_until_end(std::chrono::milliseconds timeout) {
  if (failure_) {
    failure_->raise();
  }
  if (started_.has_ended()) {
    return;
  }
  const bool is_limited = timeout > kNoTimeout;
  const auto until = Clock::now() + timeout;
  while (true) {
    const double left = std::chrono::duration<double>(until - Clock::now()).count();
    const double slice = is_limited ? std::clamp(left, 0.0, kSignalSlice_s) : kSignalSlice_s;
    const sennit_status_t status = started_.wait(slice);
    if (status == SENNIT_OK) {
      break;
    }
    if (status != SENNIT_IN_PROGRESS) {
      failure_ = Failure::last(status);
      finish(std::make_exception_ptr(std::runtime_error(sennit_status_text(status))));
      failure_->raise();
    }
    run_signal_handlers(comm_);
    if (is_limited && left <= 0.0) {
      // A caller that comes back by itself may then make the call that another rank waits for. To
      // wait in slices alone would say that it cannot.
      (void)started_.can_end();
      refuse(SENNIT_IN_PROGRESS,
             c10::str("the operation has not ended within ",
                      timeout.count(),
                      " ms; it goes on, and may be waited for again"));
    }
  }
  finish();
}

c10::intrusive_ptr<c10::ivalue::Future> HostWork::getFuture() {
  const Unlocked unlocked;
  const std::lock_guard lock(progress_);
  wait_until_end(kNoTimeout);
  if (!future_) {
    future_ = future_of(outputs_);
  }
  return future_;
}

ManyWorks::ManyWorks(int rank, std::vector<c10::intrusive_ptr<c10d::Work>> works)
    : c10d::Work(rank, c10d::OpType::COALESCED), works_(std::move(works)) {}

bool ManyWorks::isCompleted() {
  bool have_ended = true;
  for (const auto& work : works_) {
    have_ended = work->isCompleted() && have_ended;
  }
  return have_ended;
}

bool ManyWorks::wait(std::chrono::milliseconds timeout) {
  for (const auto& work : works_) {
    work->wait(timeout);
  }
  return true;
}

std::vector<at::Tensor> ManyWorks::result() {
  Tensors outputs;
  for (const auto& work : works_) {
    const Tensors those = work->result();
    outputs.insert(outputs.end(), those.begin(), those.end());
  }
  return outputs;
}

c10::intrusive_ptr<c10::ivalue::Future> ManyWorks::getFuture() {
  wait(kNoTimeout);
  return future_of(result());
}

c10::intrusive_ptr<c10::ivalue::Future> future_of(const Tensors& tensors,
                                                  std::vector<c10::Device> devices) {
  auto future = c10::make_intrusive<c10::ivalue::Future>(
      c10::ListType::create(c10::TensorType::get()), std::move(devices));
  future->markCompleted(c10::IValue(tensors));
  return future;
}

}  // namespace sennit::pytorch
