// DeviceWatch: why calls of a GPU rank cannot end, and how its waits are let go then. A thread
// looks at the other ranks: kernels and streams of this rank leave when one of them has died, has
// given up, or has made another call.
#pragma once

#include "comm/device/stopped_at_exit.hpp"
#include "exec/gpu_context.hpp"
#include "memory/device_memory.hpp"
#include "world/call_comparison.hpp"
#include "world/message_comparison.hpp"
#include "world/operation.hpp"
#include "world/world.hpp"

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace sennit {

class DeviceWatch {
 public:
  // All outlive the result. `name`: of the communicator.
  DeviceWatch(World& world, GpuContext& context, std::string name);
  ~DeviceWatch();
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  // Why the communicator has failed; ok while it works.
  [[nodiscard]] Status failure();
  // Why calls that have not ended will not end well; ok while they may. Besides failure() this is
  // an abort that no call has run into yet.
  [[nodiscard]] Status trouble();
  // Ends all waits of this rank and reports it to the others.
  void abort();
  // For a call that has been reported and fails on this rank, and not on all: what the
  // communicator has failed with from now on.
  Status give_up(const Status& status);
  // What can be known now of why calls cannot end; ok while they can.
  Status look();
  // Of a call that waits on the host and has passed its deadline: whom it waits for.
  [[nodiscard]] Status explain_deadline(const Operation& operation) const;

  // While finalize() waits: when calls are abandoned.
  void abandon_at(std::chrono::steady_clock::time_point when);
  // What finalize() found, where the rank waits no more; reports a failure to the others.
  Status end_of_finalize(bool had_failed, Status drained);

  // Whether the thread is there and has not been asked to end.
  [[nodiscard]] bool is_watching() const;
  void stop();

 private:
  [[nodiscard]] Status error_of(const Verdict& verdict) const;
  [[nodiscard]] Status explain(sm::Trouble trouble) const;
  [[nodiscard]] Verdict explain_absence() const;
  [[nodiscard]] Verdict explain_absence_of(const Operation& operation) const;
  [[nodiscard]] Verdict explain_wait(const std::vector<int>& peers) const;
  [[nodiscard]] sm::ErrorWord& error_word() const { return context_.memory().error_word(); }
  Status find_failure();  // under mutex_
  [[nodiscard]] std::optional<Verdict> find_missing_calls(int finalized) const;
  [[nodiscard]] std::optional<int> find_quitter() const;
  [[nodiscard]] Verdict retell(int rank) const;
  void tell_others();
  [[nodiscard]] std::uint64_t calls_of(int rank) const;
  void watch(const std::stop_token& stop);
  // Whether there are calls in streams that have to end now.
  bool watch_streams();

  World& world_;
  GpuContext& context_;
  std::string name_;
  std::mutex mutex_;
  Status failure_;
  Status cause_;                                  // why waits were ended; a failure once one was
  std::optional<Clock::time_point> finalize_by_;  // while finalize() waits
  CallComparison comparison_;
  MessageComparison message_comparison_;
  std::jthread watcher_;
  std::optional<StoppedAtExit> stopped_at_exit_;
};

}  // namespace sennit
