// The sum of sparse tensors: every rank gets the elements of all, and adds those of one place.
#pragma once

#include "operation.hpp"

#include <torch/csrc/distributed/c10d/Types.hpp>

namespace sennit::pytorch {

// How many elements the tensor of this rank has, and room for those numbers of all ranks.
Tensors lengths_of_all(Ranks ranks, const at::Tensor& tensor);

Operation sparse_all_reduce(const at::Tensor& tensor,
                            const at::Tensor& lengths,
                            const c10d::AllreduceOptions& options);

}  // namespace sennit::pytorch
