// The operators sennit::all_reduce_rms_norm and sennit::all_reduce_rms_norm_fp8 of PyTorch, which
// torch.compile keeps whole: registered where this is linked in.
#pragma once

#include "operation.hpp"

#include <ATen/ATen.h>
#include <optional>

namespace sennit::pytorch {

// Of one all_reduce of the rows of a matrix on a GPU.
struct Normalised {
  at::Tensor x;
  at::Tensor residual;  // becomes residual + sum
  at::Tensor weight;
  double epsilon = 0;
  at::Tensor output;
  std::optional<at::Tensor> quantized;
  std::optional<at::Tensor> scale;
};

Operation all_reduce_rms_norm(const Normalised& normalised);

}  // namespace sennit::pytorch
