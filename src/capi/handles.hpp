// What stands behind the ABI's opaque handles.
#pragma once

#include "capi/device_work.hpp"
#include "comm/device/gpu_comm.hpp"
#include "comm/progress_engine.hpp"
#include "sennit/sennit.h"

#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>

namespace sennit {

// What a non-blocking init ends with.
struct Joined {
  std::shared_ptr<Communicator> comm;
  std::unique_ptr<GpuComm> device;  // null for host ranks
};

class BackgroundJoin;

}  // namespace sennit

// One communicator of one rank. `comm` is null while a non-blocking init runs, or when it failed.
struct sennit_comm {
  std::shared_ptr<sennit::Communicator> comm;
  std::shared_ptr<sennit::ProgressEngine> engine;
  std::unique_ptr<sennit::GpuComm> device;        // null for host ranks; ends before `comm`
  std::shared_ptr<sennit::WorkOwner> work_owner;  // of `device`; null before its first work
  sennit::CommConfig config;
  std::future<sennit::Result<sennit::Joined>> joining;
  std::shared_ptr<sennit::BackgroundJoin> background;  // that brings it
  std::atomic<bool> has_joined{false};                 // `comm` is there, and stays
  std::mutex settling;        // whoever asks first takes what `joining` brings
  sennit::Status last_error;  // of this communicator; sennit_comm_last_error hands out its fields
};

// One call: of a host rank `work`, of a GPU rank `in_stream`. Neither is there before the group of
// the call has ended.
struct sennit_work {
  sennit_comm_t owner = nullptr;
  std::shared_ptr<sennit::Communicator> comm;
  std::shared_ptr<sennit::ProgressEngine> engine;
  std::shared_ptr<sennit::Work> work;
  std::unique_ptr<sennit::DeviceWork> in_stream;
};

namespace sennit {

// Ready to be called: not NULL and joined. A failed init is reported again.
Status check_comm(sennit_comm_t comm);

// Gives the operation the operator with this ABI value: one of the table, or one that was made with
// a scalar of the operation's dtype for this communicator.
Status set_operator(int value, sennit_comm_t comm, Operation& operation);

// The ABI's double seconds; negative: for ever.
Clock::duration to_limit(double timeout_s);

}  // namespace sennit
