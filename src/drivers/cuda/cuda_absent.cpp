#include "drivers/cuda/cuda.hpp"

namespace sennit {

bool is_built_with_cuda() { return false; }

Result<CudaDriver*> cuda_driver() {
  return fail(Code::kUnsupported,
              "this build of Sennit has no CUDA: configure with -DSENNIT_CUDA=ON where nvcc is");
}

}  // namespace sennit
