// Stands for src/exec/sm/direct_kernels.cuh where lists of kernels are checked without nvcc.
#pragma once

#include "exec/sm/direct_kernels.hpp"

namespace sennit::sm {

template <Dtype kDtype>
const void* reducing_kernel_of(KernelKind kind, ReduceOp op) {
  static constexpr char kKernel = 0;
  return has_kernel(kind, kDtype, op) ? &kKernel : nullptr;
}

}  // namespace sennit::sm

#define SENNIT_INSTANTIATE_KERNELS(dtype)                                            \
  template const void* sennit::sm::reducing_kernel_of<dtype>(sennit::sm::KernelKind, \
                                                             sennit::ReduceOp)
