// The backend `sennit` of torch.distributed: a c10d::Backend over communicators of Sennit.
#pragma once

#include "gpu_ranks.hpp"
#include "host_work.hpp"
#include "operation.hpp"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace sennit::pytorch {

// Joins GPU ranks on a device ("cuda:0").
using JoinGpus = std::function<sennit_comm_t(const std::string& device)>;

// Owns its communicators. GPU ranks join at the first call on a tensor in GPU memory, which all
// ranks have to make. Any thread, one at a time.
class Backend final : public c10d::Backend {
 public:
  Backend(int rank, int size, sennit_comm_t comm, JoinGpus join_gpus, CallWishes wishes);
  ~Backend() override;

  const std::string getBackendName() const override { return "sennit"; }
  bool supportsCoalescing() const override { return true; }
  void setTimeout(std::chrono::milliseconds timeout) override { timeout_ = timeout; }
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return sequence_; }
  void abort() override;
  void shutdown() override;

  void startCoalescing() override;
  c10::intrusive_ptr<c10d::Work> endCoalescing() override;

  // Collectives of one tensor.
  c10::intrusive_ptr<c10d::Work> broadcast(Tensors& tensors,
                                           const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce(Tensors& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce_sparse(Tensors& tensors,
                                                  const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce_coalesced(
      Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce(Tensors& tensors,
                                        const c10d::ReduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output,
                                                 at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather_into_tensor_coalesced(
      Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(
      at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter_tensor_coalesced(
      Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& output,
                                               at::Tensor& input,
                                               std::vector<std::int64_t>& output_splits,
                                               std::vector<std::int64_t>& input_splits,
                                               const c10d::AllToAllOptions& options) override;
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override;

  // Collectives of lists of tensors, which lie anywhere: they go through one buffer.
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<Tensors>& outputs,
                                           Tensors& inputs,
                                           const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather_coalesced(
      std::vector<Tensors>& outputs,
      Tensors& inputs,
      const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> gather(std::vector<Tensors>& outputs,
                                        Tensors& inputs,
                                        const c10d::GatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> scatter(Tensors& outputs,
                                         std::vector<Tensors>& inputs,
                                         const c10d::ScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter(Tensors& outputs,
                                                std::vector<Tensors>& inputs,
                                                const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> alltoall(Tensors& outputs,
                                          Tensors& inputs,
                                          const c10d::AllToAllOptions& options) override;

  // Messages.
  c10::intrusive_ptr<c10d::Work> send(Tensors& tensors, int peer, int tag) override;
  c10::intrusive_ptr<c10d::Work> recv(Tensors& tensors, int peer, int tag) override;
  c10::intrusive_ptr<c10d::Work> recvAnysource(Tensors& tensors, int tag) override;

 private:
  enum class Kind { kCollective, kMessage };

  // Starts an operation; `place`: one of its tensors, null for host ranks.
  c10::intrusive_ptr<c10d::Work> run(Operation operation,
                                     const at::Tensor* place,
                                     Kind kind = Kind::kCollective);
  c10::intrusive_ptr<c10d::Work> run_on_host(Operation& operation);
  GpuRanks& gpu_ranks(const at::Device& device);
  [[nodiscard]] double deadline_of(std::chrono::milliseconds timeout) const;
  c10::intrusive_ptr<c10d::Work> reduce_each(const at::Tensor& output,
                                             const Tensors& inputs,
                                             const c10d::ReduceScatterOptions& options);
  void require_ranks(std::size_t count) const;

  sennit_comm_t comm_;
  std::shared_ptr<GpuRanks> gpus_;
  JoinGpus join_gpus_;
  CallWishes wishes_;
  std::chrono::milliseconds timeout_{c10d::kUnsetTimeout};
  std::shared_ptr<Dropped> dropped_ = std::make_shared<Dropped>();
  std::uint64_t sequence_ = 0;
  bool is_coalescing_ = false;
  std::vector<c10::intrusive_ptr<c10d::Work>> coalesced_;
};

}  // namespace sennit::pytorch
