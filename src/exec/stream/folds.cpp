// Of all element types, the kernels that fold.
#include "exec/stream/fold.hpp"

namespace sennit::stream {

// Compiled for a few types a file (exec/stream/fold_kernel.cuh).
template <Dtype kDtype>
const void* fold_kernel_of(ReduceOp op);

const void* fold_kernel(Dtype dtype, ReduceOp op) {
  switch (dtype) {
#define SENNIT_DTYPE(name, value, enumerator, ...) \
  case Dtype::enumerator:                          \
    return fold_kernel_of<Dtype::enumerator>(op);
#include "types/dtypes.def"
#undef SENNIT_DTYPE
  }
  return nullptr;
}

}  // namespace sennit::stream
