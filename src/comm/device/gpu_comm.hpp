// GpuComm: the calls of a communicator of GPU ranks, in stream order, as the C ABI makes them.
//
// DeviceComm (comm/device) is that of ranks of one node, NodesComm (comm/nodes) that of ranks of
// several.
#pragma once

#include "base/status.hpp"
#include "comm/device/completion_event.hpp"
#include "exec/proved_plan.hpp"
#include "world/operation.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace sennit {

class GpuComm {
 public:
  GpuComm() = default;
  virtual ~GpuComm() = default;
  GpuComm(const GpuComm&) = delete;
  GpuComm& operator=(const GpuComm&) = delete;

  [[nodiscard]] virtual int device() const = 0;

  // Puts calls into the streams. They run in their order, sends and recvs together after the rest;
  // a send or recv ends the wait of its stream when all of them have ended.
  struct Call {
    Operation operation;
    void* stream = nullptr;
    CompletionEvent* completion = nullptr;  // recorded in `stream` behind the call; null: no event
  };
  virtual Status enqueue(std::span<const Call> calls) = 0;
  // What the last call ran as, as long as the communicator lives; null where that was messages, or
  // ranks are on several nodes.
  [[nodiscard]] virtual const ProvedPlan* last_plan() const { return nullptr; }
  // A hint: this buffer will be a receive destination. Advertised to all peers without blocking;
  // each peer maps it during its next call that is not under stream capture.
  virtual void expect_use_of(void* memory, std::size_t bytes) = 0;
  // Memory of all ranks (memory/symmetric_memory.hpp). Its number; 0: nothing relies on it here.
  virtual std::uint64_t add_symmetric(void* memory, std::size_t bytes) = 0;
  // Of a number that is none, nothing.
  virtual void remove_symmetric(std::uint64_t number) = 0;

  // Why the communicator has failed; ok while it works.
  [[nodiscard]] virtual Status failure() = 0;
  // Why calls that have not ended will not end well; ok while they may. Besides failure() this is
  // an abort that no call has run into yet.
  [[nodiscard]] virtual Status trouble() = 0;
  // For a call that is going to be enqueued into `stream`.
  virtual Result<std::unique_ptr<CompletionEvent>> completion_in(void* stream) = 0;
  // Makes waiting kernels and streams leave.
  virtual void abort() = 0;

  // Waits for the calls that are in the streams. They need their peers, which may never come, so
  // the communicator is aborted when the time is over: kInvalidUsage then. Of other failures it
  // reports only those of calls that it waited for. The destructor waits in the same way.
  virtual Status finalize() = 0;
};

// The streams of the calls but that of the first, each once.
std::vector<void*> other_streams(std::span<const GpuComm::Call> calls);
// Side streams have been joined into the streams of the calls by now.
Status record_completions(std::span<const GpuComm::Call> calls);

}  // namespace sennit
