// DeviceComm: the calls of one communicator on GPU memory, in stream order.
//
// A call is checked; `select` names the best plan for it, then the next best where all ranks have
// found that one out of reach; the plan's executable (exec/executable.hpp), proved and made at
// first use, puts it into the stream. Errors that come later are recorded in the error word
// (sm::ErrorWord, in pinned memory) and returned by failure(), the next call, or
// sennit_comm_async_error. DeviceWatch finds out why calls cannot end, and ends them.
#pragma once

#include "comm/device/coded_calls.hpp"
#include "comm/device/device_watch.hpp"
#include "comm/device/gpu_comm.hpp"
#include "comm/device/message_groups.hpp"
#include "comm/device/stream_order.hpp"
#include "exec/executables.hpp"
#include "exec/gpu_context.hpp"
#include "world/operation.hpp"
#include "world/world.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace sennit {

class DeviceComm final : public GpuComm, private CallGuard {
 public:
  using Options = GpuOptions;

  // All ranks together. `driver` and `world` outlive the result.
  static Result<std::unique_ptr<DeviceComm>> create(CudaDriver& driver,
                                                    int device,
                                                    World& world,
                                                    const Options& options,
                                                    const Exchange& exchange);
  ~DeviceComm() override;

  [[nodiscard]] int device() const override { return device_; }
  Status enqueue(std::span<const Call> calls) override;
  [[nodiscard]] const ProvedPlan* last_plan() const override { return last_plan_; }
  void expect_use_of(void* memory, std::size_t bytes) override;
  std::uint64_t add_symmetric(void* memory, std::size_t bytes) override;
  void remove_symmetric(std::uint64_t number) override;
  [[nodiscard]] Status failure() override { return watch_->failure(); }
  [[nodiscard]] Status trouble() override { return watch_->trouble(); }
  Result<std::unique_ptr<CompletionEvent>> completion_in(void* stream) override {
    return CompletionEvent::create(driver_, device_, stream);
  }
  void abort() override { watch_->abort(); }
  Status finalize() override;

  // What the operation asks for in rms_norm, of a sum that is in its output.
  Status normalise(const Operation& operation, void* stream);

 private:
  DeviceComm(CudaDriver& driver, int device, World& world, Options options);

  [[nodiscard]] double deadline_of(const Operation& operation) const;
  [[nodiscard]] GpuCall gpu_call(const Operation& operation, void* stream);
  [[nodiscard]] std::function<Status()> trouble_of(const Operation& operation) override;
  // The best plan of a collective with these means.
  Result<DeviceChoice> choose(const Operation& operation, const Means& means) const;
  // How far a collective has come through its candidates.
  struct Candidates {
    Means means;
    Lack lack = Lack::kNothing;  // the last means that was found missing
    bool is_reported = false;
  };
  Result<Executable*> next_candidate(const Operation& operation, Candidates& candidates);
  Status collective(const Call& call);
  // A v-form: a group of messages.
  Status varying(const Call& call);
  Status barrier(void* stream);
  Status messages(std::span<const Call> calls);
  // The codec that the call names and may have, or that of a rule if it may.
  Result<std::optional<Codec>> codec_of(const Operation& operation) const;
  Status coded_collective(const Call& call, Codec codec);
  // A barrier, or a collective with or without a codec.
  Status make(const Call& call);
  // In every call: a rank that has registered memory waits for the others to have mapped it, and
  // these may have nothing to send there yet.
  void map_registered_buffers(std::span<const Call> calls);

  CudaDriver& driver_;
  int device_;
  World& world_;
  Options options_;
  StreamOrder order_;
  std::unique_ptr<GpuContext> context_;
  std::unique_ptr<Executables> executables_;
  std::unique_ptr<MessageGroups> groups_;
  std::unique_ptr<CodedCalls> coded_;
  void* token_ = nullptr;  // device bytes that a barrier exchanges
  bool is_finalized_ = false;
  const ProvedPlan* last_plan_ = nullptr;
  std::unique_ptr<DeviceWatch> watch_;  // its thread ends first
};

}  // namespace sennit
