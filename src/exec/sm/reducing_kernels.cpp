// Of all element types, the kernels of collectives that reduce.
#include "exec/sm/direct_kernels.hpp"

namespace sennit::sm {

// Compiled for a few types a file (direct_kernels.cuh).
template <Dtype kDtype>
const void* reducing_kernel_of(KernelKind kind, ReduceOp op);

const void* reducing_kernel(KernelKind kind, Dtype dtype, ReduceOp op) {
  switch (dtype) {
#define SENNIT_DTYPE(name, value, enumerator, ...) \
  case Dtype::enumerator:                          \
    return reducing_kernel_of<Dtype::enumerator>(kind, op);
#include "types/dtypes.def"
#undef SENNIT_DTYPE
  }
  return nullptr;
}

}  // namespace sennit::sm
