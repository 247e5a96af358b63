// KernelsOnDemand: kernels that reduce are loaded when a communicator first uses them. There are
// some 900 of them, of which a program uses a handful; loading all took 155 ms and 50 MiB of GPU
// memory (`h100x2-communicators`). Those that only move data are loaded when the communicator
// is made.
//
// Loading may wait for what runs on the device, and a kernel that runs may wait for a call of this
// rank that comes later. Ranks that make the calls of all communicators in one order do not meet
// that: what runs is then a call that the other ranks have made or will make without this one.
// Ranks that are threads of one process might wait for each other inside CUDA, too (decision 43):
// for them all kernels are loaded when the communicator is made.
#pragma once

#include "base/status.hpp"
#include "drivers/cuda/cuda.hpp"
#include "exec/loaded_kernels.hpp"
#include "exec/row_norm.hpp"
#include "exec/sm/direct_call.hpp"
#include "exec/sm/direct_kernels.hpp"
#include "exec/sm/small_call.hpp"
#include "types/types.hpp"

#include <array>
#include <cstddef>

namespace sennit::sm {

class KernelsOnDemand {
 public:
  // `driver` outlives the result.
  explicit KernelsOnDemand(CudaDriver& driver) : driver_(driver), normers_(driver) {}

  // Kernels that move data: all of them, for the current device.
  Status load_movers() {
    for (const int calls : {kFewPairCalls, kMaxPairCalls}) {
      for (const bool on_host : {false, true}) {
        SENNIT_RETURN_IF_ERROR(driver_.preload(pairs_kernel(calls, on_host)));
      }
    }
    for (const int calls : {kFewSmallPairs, kMaxSmallPairs}) {
      for (const int parts : {1, 2}) {
        SENNIT_RETURN_IF_ERROR(driver_.preload(small_pairs_kernel(calls, parts)));
      }
    }
    for (const KernelKind kind : kKernelKinds) {
      if (kind != KernelKind::kReads) {
        SENNIT_RETURN_IF_ERROR(driver_.preload(moving_kernel(kind)));
      }
    }
    return {};
  }

  // Kernels that reduce: all of them, for the current device.
  Status load_reducers() {
    for (const KernelKind kind : kKernelKinds) {
      for (const Dtype dtype : kDtypes) {
        for (const ReduceOp op : kReduceOps) {
          if (has_kernel(kind, dtype, op)) {
            SENNIT_RETURN_IF_ERROR(driver_.preload(reducing_kernel(kind, dtype, op)));
            is_loaded(kind, dtype, op) = true;
          }
        }
      }
    }
    for (const Dtype dtype : {Dtype::kFloat16, Dtype::kBfloat16}) {
      SENNIT_RETURN_IF_ERROR(normers_.load(norming_kernel(dtype)));
      SENNIT_RETURN_IF_ERROR(normers_.load(row_norm_kernel(dtype)));
    }
    return {};
  }

  // The kernel that reduces so. While `stream` captures CUDA is left to load it when the graph is
  // made.
  Result<const void*> reducer(KernelKind kind, Dtype dtype, ReduceOp op, void* stream) {
    const void* const kernel = reducing_kernel(kind, dtype, op);
    if (kernel == nullptr) {
      return fail(Code::kUnsupported,
                  "no kernel of kind {} reduces {} by {}",
                  static_cast<int>(kind),
                  name(dtype),
                  name(op));
    }
    if (!is_loaded(kind, dtype, op)) {
      SENNIT_ASSIGN_OR_RETURN(const bool is_capturing, driver_.is_capturing(stream));
      if (!is_capturing) {
        SENNIT_RETURN_IF_ERROR(driver_.preload(kernel));
        is_loaded(kind, dtype, op) = true;
      }
    }
    return kernel;
  }

  // Likewise norming_kernel() or row_norm_kernel().
  Result<const void*> normer(const void* kernel, void* stream) {
    SENNIT_RETURN_IF_ERROR(normers_.load_for(stream, kernel));
    return kernel;
  }

 private:
  using OfType = std::array<bool, kReduceOps.size()>;

  bool& is_loaded(KernelKind kind, Dtype dtype, ReduceOp op) {
    return loaded_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(dtype)]
                  [static_cast<std::size_t>(op)];
  }

  CudaDriver& driver_;
  LoadedKernels normers_;
  std::array<std::array<OfType, kDtypes.size()>, kKernelKinds.size()> loaded_{};
};

}  // namespace sennit::sm
