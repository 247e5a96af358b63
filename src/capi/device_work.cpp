#include "capi/device_work.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace sennit {
namespace {

using std::chrono::microseconds;

// Small calls end within tens of microseconds. A sleep takes longer than it says by about as much
// as its shortest one is, and is as nothing to calls that take longer than the polling.
constexpr Clock::duration kPollTime = microseconds(100);
constexpr Clock::duration kSleep = microseconds(50);

}  // namespace

Status WorkOwner::failure() {
  const std::scoped_lock lock(mutex_);
  return comm_ != nullptr ? comm_->failure() : failure_;
}

Status WorkOwner::trouble() {
  const std::scoped_lock lock(mutex_);
  return comm_ != nullptr ? comm_->trouble() : failure_;
}

void WorkOwner::end() {
  const std::scoped_lock lock(mutex_);
  if (comm_ != nullptr) {
    failure_ = comm_->failure();
    comm_ = nullptr;
  }
}

std::optional<Status> DeviceWork::poll() {
  if (outcome_) {
    return outcome_;
  }
  const Result<bool> has_passed = completion_->has_passed();
  if (!has_passed.ok()) {
    outcome_ = has_passed.status();
  } else if (*has_passed) {
    // Kernels and the watcher write why a call failed before its stream goes on.
    outcome_ = owner_->failure();
  } else if (Status trouble = owner_->trouble(); !trouble.ok()) {
    outcome_ = std::move(trouble);
  }
  return outcome_;
}

std::optional<Status> DeviceWork::wait(ProgressEngine& engine, Clock::duration limit) {
  const Clock::time_point begin = Clock::now();
  while (true) {
    if (auto outcome = poll()) {
      return outcome;
    }
    engine.poke();
    const Clock::duration waited = Clock::now() - begin;
    if (waited >= limit) {
      return std::nullopt;
    }
    if (waited < kPollTime) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::min(kSleep, limit - waited));
    }
  }
}

}  // namespace sennit
