// Operations on tensors that calls use as they lie in memory, and messages.
#pragma once

#include "operation.hpp"

#include <cstdint>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

namespace sennit::pytorch {

Operation broadcast(const Tensors& tensors, const c10d::BroadcastOptions& options);
Operation all_reduce(const Tensors& tensors, const c10d::AllreduceOptions& options);
Operation all_reduce_each(const Tensors& tensors, const c10d::AllreduceCoalescedOptions& options);
Operation reduce(const Tensors& tensors, const c10d::ReduceOptions& options);
Operation all_gather(Ranks ranks,
                     const Tensors& outputs,
                     const Tensors& inputs,
                     const c10d::AllgatherOptions& options);
Operation reduce_scatter(Ranks ranks,
                         const Tensors& outputs,
                         const Tensors& inputs,
                         const c10d::ReduceScatterOptions& options);
Operation all_to_all(Ranks ranks,
                     const at::Tensor& output,
                     const at::Tensor& input,
                     const std::vector<std::int64_t>& output_splits,
                     const std::vector<std::int64_t>& input_splits,
                     const c10d::AllToAllOptions& options);
Operation barrier(const c10d::BarrierOptions& options);
Operation send(const Tensors& tensors, int peer, int tag);
// From `peer`, or SENNIT_ANY_RANK.
Operation recv(const Tensors& tensors, int peer, int tag);
}  // namespace sennit::pytorch
