// The backend `sennit` of torch.distributed: a c10d::Backend over communicators of Sennit.
#pragma once

#include "call_settings.hpp"
#include "gpu_ranks.hpp"
#include "host_work.hpp"
#include "operation.hpp"
#include "rms_norm.hpp"

#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

namespace sennit::pytorch {

using WorkPointer = c10::intrusive_ptr<c10d::Work>;
// Joins GPU ranks on a device ("cuda:0").
using JoinGpus = std::function<sennit_comm_t(const std::string& device)>;

// Owns its communicators. GPU ranks join at the first call on a tensor in GPU memory, which all
// ranks have to make. Any thread, one at a time. PyTorch gives the methods their names.
class Backend final : public c10d::Backend {
 public:
  Backend(Ranks ranks, sennit_comm_t comm, JoinGpus join_gpus, SettingsByCollective settings);
  ~Backend() override;

  const std::string getBackendName() const override { return "sennit"; }
  bool supportsCoalescing() const override { return true; }
  void setTimeout(std::chrono::milliseconds timeout) override { timeout_ = timeout; }
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return sequence_; }
  void abort() override;
  void shutdown() override;

  void startCoalescing() override;
  WorkPointer endCoalescing() override;

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPointer allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPointer allreduce_coalesced(Tensors& tensors,
                                  const c10d::AllreduceCoalescedOptions& options) override;
  // On the current stream.
  void all_reduce_rms_norm(const Normalised& normalised);
  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPointer allgather(std::vector<Tensors>& outputs,
                        Tensors& inputs,
                        const c10d::AllgatherOptions& options) override;
  WorkPointer allgather_coalesced(std::vector<Tensors>& outputs,
                                  Tensors& inputs,
                                  const c10d::AllgatherOptions& options) override;
  WorkPointer _allgather_base(at::Tensor& output,
                              at::Tensor& input,
                              const c10d::AllgatherOptions& options) override;
  WorkPointer allgather_into_tensor_coalesced(Tensors& outputs,
                                              Tensors& inputs,
                                              const c10d::AllgatherOptions& options) override;
  WorkPointer gather(std::vector<Tensors>& outputs,
                     Tensors& inputs,
                     const c10d::GatherOptions& options) override;
  WorkPointer scatter(Tensors& outputs,
                      std::vector<Tensors>& inputs,
                      const c10d::ScatterOptions& options) override;
  WorkPointer reduce_scatter(Tensors& outputs,
                             std::vector<Tensors>& inputs,
                             const c10d::ReduceScatterOptions& options) override;
  WorkPointer _reduce_scatter_base(at::Tensor& output,
                                   at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override;
  WorkPointer reduce_scatter_tensor_coalesced(Tensors& outputs,
                                              Tensors& inputs,
                                              const c10d::ReduceScatterOptions& options) override;
  WorkPointer alltoall(Tensors& outputs,
                       Tensors& inputs,
                       const c10d::AllToAllOptions& options) override;
  WorkPointer alltoall_base(at::Tensor& output,
                            at::Tensor& input,
                            std::vector<std::int64_t>& output_splits,
                            std::vector<std::int64_t>& input_splits,
                            const c10d::AllToAllOptions& options) override;
  // For all ranks, and for the work that their current streams have.
  WorkPointer barrier(const c10d::BarrierOptions& options) override;
  WorkPointer send(Tensors& tensors, int peer, int tag) override;
  WorkPointer recv(Tensors& tensors, int peer, int tag) override;
  WorkPointer recvAnysource(Tensors& tensors, int tag) override;

 private:
  [[nodiscard]] Ranks ranks() const { return {getRank(), getSize()}; }
  WorkPointer run(Operation operation);
  WorkPointer run_on_host(Operation& operation);
  GpuRanks& gpu_ranks(const at::Device& device);
  [[nodiscard]] double deadline_of(std::chrono::milliseconds timeout) const;

  sennit_comm_t comm_;
  std::shared_ptr<GpuRanks> gpus_;
  JoinGpus join_gpus_;
  SettingsByCollective settings_;
  std::chrono::milliseconds timeout_{c10d::kUnsetTimeout};
  std::shared_ptr<Dropped> dropped_ = std::make_shared<Dropped>();
  std::uint64_t sequence_ = 0;
  bool is_coalescing_ = false;
  std::vector<WorkPointer> coalesced_;
};

}  // namespace sennit::pytorch
