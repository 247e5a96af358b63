// A build without CUDA has no kernels; nobody asks for them, as there is no driver either.
#include "exec/sm/direct_kernels.hpp"

namespace sennit::sm {

const void* moving_kernel(KernelKind /*kind*/) { return nullptr; }
const void* pairs_kernel(int /*calls*/, bool /*on_host*/) { return nullptr; }
const void* small_pairs_kernel(int /*calls*/) { return nullptr; }
const void* reducing_kernel(KernelKind /*kind*/, Dtype /*dtype*/, ReduceOp /*op*/) {
  return nullptr;
}

}  // namespace sennit::sm
