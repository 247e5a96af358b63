// A build without CUDA has no kernels, but marks by which fakes recognise them.
#include "exec/row_norm.hpp"

namespace sennit {
namespace {

constexpr char kOfBfloat16 = 0;
constexpr char kOfFloat16 = 0;

}  // namespace

const void* row_norm_kernel(Dtype dtype) {
  return dtype == Dtype::kBfloat16  ? &kOfBfloat16
         : dtype == Dtype::kFloat16 ? &kOfFloat16
                                    : nullptr;
}

}  // namespace sennit
