// Operations on lists of tensors, which lie anywhere: they go through one buffer.
#pragma once

#include "operation.hpp"

#include <cstdint>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

namespace sennit::pytorch {

Operation all_gather_list(Ranks ranks,
                          const std::vector<Tensors>& outputs,
                          const Tensors& inputs,
                          const c10d::AllgatherOptions& options);
Operation all_gather_lists(Ranks ranks,
                           const std::vector<Tensors>& outputs,
                           const Tensors& inputs,
                           const c10d::AllgatherOptions& options);
Operation gather(Ranks ranks,
                 const std::vector<Tensors>& outputs,
                 const Tensors& inputs,
                 const c10d::GatherOptions& options);
Operation scatter(Ranks ranks,
                  const Tensors& outputs,
                  const std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options);
Operation reduce_scatter_list(Ranks ranks,
                              const Tensors& outputs,
                              const std::vector<Tensors>& inputs,
                              const c10d::ReduceScatterOptions& options);
Operation all_to_all_list(Ranks ranks,
                          const Tensors& outputs,
                          const Tensors& inputs,
                          const c10d::AllToAllOptions& options);
}  // namespace sennit::pytorch
