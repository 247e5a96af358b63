#include "exec/sm/direct_kernel.cuh"
#include "exec/sm/direct_kernels.hpp"
#include "exec/sm/pairs_kernel.cuh"
#include "exec/sm/small_kernel.cuh"
#include "exec/sm/step_kernel.cuh"

namespace sennit::sm {

const void* moving_kernel(KernelKind kind) {
  switch (kind) {
    case KernelKind::kLl:
      return reinterpret_cast<const void*>(&direct_kernel<Ll, NoReduction>);
    case KernelKind::kLl128:
      return reinterpret_cast<const void*>(&direct_kernel<Ll128, NoReduction>);
    case KernelKind::kSlots:
      return reinterpret_cast<const void*>(&direct_kernel<Slots, NoReduction>);
    case KernelKind::kPlain:
      return reinterpret_cast<const void*>(&direct_kernel<Plain, NoReduction>);
    case KernelKind::kSmall:
      return reinterpret_cast<const void*>(&small_kernel<NoReduction>);
    case KernelKind::kSteps:
      return reinterpret_cast<const void*>(&step_kernel<NoReduction>);
    case KernelKind::kReads:
      break;
  }
  return nullptr;
}

namespace {

template <bool kOnHost>
const void* pairs_kernel_of(int calls) {
  return calls <= kFewPairCalls
             ? reinterpret_cast<const void*>(&pairs_kernel<FewPairCalls, kOnHost>)
             : reinterpret_cast<const void*>(&pairs_kernel<PairCalls, kOnHost>);
}

}  // namespace

const void* pairs_kernel(int calls, bool on_host) {
  return on_host ? pairs_kernel_of<true>(calls) : pairs_kernel_of<false>(calls);
}

const void* small_pairs_kernel(int calls, int parts) {
  if (parts > 1) {
    return reinterpret_cast<const void*>(&small_pairs_in_parts_kernel<SmallPairs>);
  }
  return calls <= kFewSmallPairs ? reinterpret_cast<const void*>(&small_pairs_kernel<FewSmallPairs>)
                                 : reinterpret_cast<const void*>(&small_pairs_kernel<SmallPairs>);
}

}  // namespace sennit::sm
