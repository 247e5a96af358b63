// Of all element types, the kernels that reduce.
#include "exec/stream/reduction.hpp"

namespace sennit::stream {

// Compiled for a few types a file (exec/stream/reduction_kernel.cuh).
template <Dtype kDtype>
const void* reduction_kernel_of(ReduceOp op);

const void* reduction_kernel(Dtype dtype, ReduceOp op) {
  switch (dtype) {
#define SENNIT_DTYPE(name, value, enumerator, ...) \
  case Dtype::enumerator:                          \
    return reduction_kernel_of<Dtype::enumerator>(op);
#include "types/dtypes.def"
#undef SENNIT_DTYPE
  }
  return nullptr;
}

}  // namespace sennit::stream
