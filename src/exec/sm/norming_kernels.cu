#include "exec/sm/direct_kernels.hpp"
#include "exec/sm/norming_kernel.cuh"

namespace sennit::sm {

const void* norming_kernel(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBfloat16:
      return reinterpret_cast<const void*>(&norming_kernel<Bfloat16>);
    case Dtype::kFloat16:
      return reinterpret_cast<const void*>(&norming_kernel<Float16>);
    default:
      return nullptr;
  }
}

}  // namespace sennit::sm
