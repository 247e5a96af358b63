// Stands for src/exec/stream/reduction_kernel.cuh where lists of kernels are checked without nvcc.
#pragma once

#include "exec/stream/reduction.hpp"

namespace sennit::stream {

template <Dtype kDtype>
const void* reduction_kernel_of(ReduceOp op) {
  static constexpr char kKernel = 0;
  return has_reduction(kDtype, op) ? &kKernel : nullptr;
}

}  // namespace sennit::stream

#define SENNIT_INSTANTIATE_REDUCTIONS(dtype) \
  template const void* sennit::stream::reduction_kernel_of<dtype>(sennit::ReduceOp)
