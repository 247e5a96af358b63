// DeviceWork: the work of a call of a GPU rank, which has ended when its stream has run past it.
#pragma once

#include "comm/device/gpu_comm.hpp"
#include "comm/progress_engine.hpp"

#include <memory>
#include <mutex>
#include <optional>

namespace sennit {

// A communicator of GPU ranks as its works see it. It stays when the communicator ends, because
// works may be waited for and destroyed after that.
class WorkOwner {
 public:
  explicit WorkOwner(GpuComm& comm) : comm_(&comm) {}

  // See GpuComm. After end() both are what failure() was then.
  Status failure();
  Status trouble();

  // The communicator is finalized and about to be destroyed.
  void end();

 private:
  std::mutex mutex_;
  GpuComm* comm_;  // null after end()
  Status failure_;
};

class DeviceWork {
 public:
  DeviceWork(std::shared_ptr<WorkOwner> owner, std::unique_ptr<CompletionEvent> completion)
      : owner_(std::move(owner)), completion_(std::move(completion)) {}

  // For GpuComm::enqueue.
  [[nodiscard]] CompletionEvent* completion() const { return completion_.get(); }
  [[nodiscard]] bool is_enqueued() const { return completion_->is_recorded(); }

  // The status of the call if it has ended, or cannot end well any more.
  std::optional<Status> poll();
  // The same, at most `limit` later. Drives the calls of `engine` meanwhile: peers that are to end
  // this call may wait for host ranks of the calling thread.
  std::optional<Status> wait(ProgressEngine& engine, Clock::duration limit);

  // For a forked child: see CompletionEvent.
  void forget() { completion_->forget(); }

 private:
  std::shared_ptr<WorkOwner> owner_;
  std::unique_ptr<CompletionEvent> completion_;
  std::optional<Status> outcome_;  // a call that was seen to end well stays so
};

}  // namespace sennit
