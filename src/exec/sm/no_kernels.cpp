// A build without CUDA has no kernels; nobody runs them, as there is no driver either. Tests
// distinguish those that take different parameters.
#include "exec/sm/direct_kernels.hpp"

#include <array>

namespace sennit::sm {
namespace {

constexpr std::array<char, kKernelKinds.size()> kCollectives{};
constexpr std::array<char, 2> kPairs{};
constexpr std::array<char, 2> kNorming{};

}  // namespace

const void* moving_kernel(KernelKind kind) {
  return &kCollectives.at(static_cast<std::size_t>(kind));
}
const void* pairs_kernel(int /*calls*/, bool /*on_host*/) { return &kPairs.front(); }
const void* small_pairs_kernel(int /*calls*/, int /*parts*/) { return &kPairs.back(); }
const void* reducing_kernel(KernelKind kind, Dtype dtype, ReduceOp op) {
  return has_kernel(kind, dtype, op) ? moving_kernel(kind) : nullptr;
}

const void* norming_kernel(Dtype dtype) {
  return dtype == Dtype::kBfloat16  ? &kNorming.front()
         : dtype == Dtype::kFloat16 ? &kNorming.back()
                                    : nullptr;
}

}  // namespace sennit::sm
