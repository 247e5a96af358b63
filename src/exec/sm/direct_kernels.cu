#include "exec/sm/direct_kernel.cuh"
#include "exec/sm/direct_kernels.hpp"

namespace sennit::sm {

// Compiled in files of their own (direct_kernels.cuh).
template <Dtype kDtype>
const void* reducing_kernel_of(Packets packets, ReduceOp op);

const void* moving_kernel(Packets packets) {
  return packets == Packets::kLl
             ? reinterpret_cast<const void*>(&direct_kernel<Ll, NoReduction>)
             : reinterpret_cast<const void*>(&direct_kernel<Ll128, NoReduction>);
}

const void* pairs_kernel(Packets packets) {
  return packets == Packets::kLl ? reinterpret_cast<const void*>(&pairs_kernel<Ll>)
                                 : reinterpret_cast<const void*>(&pairs_kernel<Ll128>);
}

const void* reducing_kernel(Packets packets, Dtype dtype, ReduceOp op) {
  switch (dtype) {
#define SENNIT_DTYPE(name, value, enumerator, ...) \
  case Dtype::enumerator:                          \
    return reducing_kernel_of<Dtype::enumerator>(packets, op);
#include "types/dtypes.def"
#undef SENNIT_DTYPE
  }
  return nullptr;
}

}  // namespace sennit::sm
