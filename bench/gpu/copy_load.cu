#include "copy_load.hpp"

namespace sennit_bench {
namespace {

constexpr int kThreads = 512;
constexpr int kUnits = 4;  // of a thread
constexpr std::size_t kBlockBytes = std::size_t{kThreads} * kUnits * sizeof(uint4);

__global__ void __launch_bounds__(kThreads)
    copy_kernel(const uint4* from, uint4* to, std::size_t units) {
  const std::size_t at = std::size_t{blockIdx.x} * kThreads * kUnits + threadIdx.x;
  uint4 held[kUnits] = {};
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    if (at + i * kThreads < units) {
      held[i] = from[at + i * kThreads];
    }
  }
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    if (at + i * kThreads < units) {
      to[at + i * kThreads] = held[i];
    }
  }
}

}  // namespace

cudaError_t copy_by_all_sms(const void* from, void* to, std::size_t bytes, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((bytes + kBlockBytes - 1) / kBlockBytes);
  copy_kernel<<<blocks, kThreads, 0, stream>>>(
      static_cast<const uint4*>(from), static_cast<uint4*>(to), bytes / sizeof(uint4));
  return cudaGetLastError();
}

}  // namespace sennit_bench
