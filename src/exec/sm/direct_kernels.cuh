// The table of kernels, one element type at a time: each .cu file compiles those of a few types, so
// that they compile side by side.
#pragma once

#include "exec/sm/direct_kernel.cuh"
#include "exec/sm/direct_kernels.hpp"
#include "exec/sm/reading_kernel.cuh"
#include "exec/sm/small_kernel.cuh"
#include "exec/sm/step_kernel.cuh"
#include "types/tables.hpp"

namespace sennit::sm {

template <class R>
const void* usual_kernel_of(KernelKind kind) {
  switch (kind) {
    case KernelKind::kLl128:
      return reinterpret_cast<const void*>(&direct_kernel<Ll128, R>);
    case KernelKind::kSlots:
      return reinterpret_cast<const void*>(&direct_kernel<Slots, R>);
    case KernelKind::kPlain:
      return reinterpret_cast<const void*>(&direct_kernel<Plain, R>);
    case KernelKind::kLl:
    case KernelKind::kSmall:
    case KernelKind::kSteps:
    case KernelKind::kReads:
      break;  // reducing_kernel_of() has them
  }
  return nullptr;
}

// As has_kernel().
template <Dtype kDtype, ReduceOp kOp>
const void* reducing_kernel_of(KernelKind kind) {
  if constexpr (has_operator(kDtype, kOp)) {
    using R = UnitReducer<Element<kDtype>, kOp>;
    switch (kind) {
      case KernelKind::kLl:
        return reinterpret_cast<const void*>(&direct_kernel<Ll, R>);
      case KernelKind::kSmall:
        return reinterpret_cast<const void*>(&small_kernel<R>);
      case KernelKind::kSteps:
        return reinterpret_cast<const void*>(&step_kernel<R>);
      case KernelKind::kReads:
        if constexpr (has_kernel(KernelKind::kReads, kDtype, kOp)) {
          return reinterpret_cast<const void*>(&reading_kernel<R>);
        }
        break;
      case KernelKind::kLl128:
      case KernelKind::kSlots:
      case KernelKind::kPlain:
        if constexpr (has_every_kernel(kOp)) {
          return usual_kernel_of<R>(kind);
        }
    }
  }
  return nullptr;
}

template <Dtype kDtype>
const void* reducing_kernel_of(KernelKind kind, ReduceOp op) {
  switch (op) {
#define SENNIT_REDUCE_OP(name, value, enumerator, ...) \
  case ReduceOp::enumerator:                           \
    return reducing_kernel_of<kDtype, ReduceOp::enumerator>(kind);
#include "types/reduce_ops.def"
#undef SENNIT_REDUCE_OP
  }
  return nullptr;
}

}  // namespace sennit::sm

// Compiles the kernels of one element type.
#define SENNIT_INSTANTIATE_KERNELS(dtype)                                            \
  template const void* sennit::sm::reducing_kernel_of<dtype>(sennit::sm::KernelKind, \
                                                             sennit::ReduceOp)
