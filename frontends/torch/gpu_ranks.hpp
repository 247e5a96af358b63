// Calls on tensors in GPU memory: on PyTorch's current stream, or on a stream of the group.
//
// What is synchronous is on the current stream. What is asynchronous is on a stream of the group,
// behind the work that the current stream has then, and `wait` orders the current stream behind it.
#pragma once

#include "operation.hpp"

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <memory>
#include <optional>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace sennit::pytorch {

class GpuWork;

// The GPU ranks of a group, on one device. PyTorch knows CUDA behind its interface of devices, so
// nothing here needs the headers of CUDA.
class GpuRanks : public std::enable_shared_from_this<GpuRanks> {
 public:
  GpuRanks(sennit_comm_t comm, at::Device device, int rank);
  ~GpuRanks();
  GpuRanks(const GpuRanks&) = delete;
  GpuRanks& operator=(const GpuRanks&) = delete;

  // Enqueues the calls of an operation, or posts them: what is posted is enqueued as one group
  // before one of it is waited for, or before the next operation, since sends and recvs may need
  // each other.
  c10::intrusive_ptr<c10d::Work> run(Operation operation,
                                     double deadline_s,
                                     const CallSettings& settings,
                                     bool is_posted);
  void make_posted();
  // Waits for the current stream.
  void synchronize();
  void abort();
  void shutdown();

 private:
  friend class GpuWork;
  [[nodiscard]] c10::Stream current() const { return guard_.getStream(device_); }
  // Makes work that `later` gets from now on wait for what `earlier` has now.
  static void order(const c10::Stream& earlier, const c10::Stream& later);

  sennit_comm_t comm_;
  at::Device device_;
  int rank_;
  c10::impl::VirtualGuardImpl guard_;
  c10::Stream side_;
  std::vector<c10::intrusive_ptr<GpuWork>> posted_;
};

// Enqueued calls that are one operation. Waiting makes the current stream wait, and the host does
// not, as with PyTorch's own `nccl`. A failure of GPU ranks is an exception of the next call.
class GpuWork final : public c10d::Work {
 public:
  GpuWork(std::shared_ptr<GpuRanks> ranks,
          Operation operation,
          double deadline_s,
          const CallSettings& settings);

  // Enqueues the calls; then, outside of any group, what remains to be done behind them.
  void start();
  void end();

  bool isCompleted() override;
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override { wait(kNoTimeout); }
  void blockCurrentStream() override { wait(kNoTimeout); }
  std::vector<at::Tensor> result() override { return operation_.outputs; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  void remember_on(const c10::Stream& stream, const Tensors& tensors) const;
  void make_if_posted();

  std::shared_ptr<GpuRanks> ranks_;
  Operation operation_;
  double deadline_s_;
  CallSettings settings_;
  c10::Stream stream_;
  c10::Event end_;
  bool has_end_ = false;
  bool is_enqueued_ = false;
  bool is_captured_ = false;
};

}  // namespace sennit::pytorch
