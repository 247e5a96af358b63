#include "exec/early_launch.cuh"
#include "exec/stream/copies.hpp"
#include "exec/stream/reduction.hpp"
#include "exec/unit.cuh"

namespace sennit::stream {
namespace {

// Loads of a thread that are in flight at once: two blocks an SM with as many fill the memory's
// bandwidth.
constexpr int kHeld = 4;

// Units `at`, `at + stride`, ... of one copy.
__device__ __forceinline__ void copy_units(const CopiesCall::Copy& copy,
                                           std::int64_t at,
                                           std::int64_t stride) {
  const auto bits =
      reinterpret_cast<std::uintptr_t>(copy.from) | reinterpret_cast<std::uintptr_t>(copy.to);
  const std::int64_t whole = bits % sizeof(Unit) == 0 ? copy.bytes / 16 : 0;
  for (; at + (kHeld - 1) * stride < whole; at += kHeld * stride) {
    Unit held[kHeld];
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      held[i] = reinterpret_cast<const Unit*>(copy.from)[at + i * stride];
    }
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      reinterpret_cast<Unit*>(copy.to)[at + i * stride] = held[i];
    }
  }
  const std::int64_t units = (copy.bytes + 15) / 16;
  for (; at < units; at += stride) {
    const std::int64_t left = copy.bytes - at * 16;
    write_unit(copy.to + at * 16, left, read_unit(copy.from + at * 16, left));
  }
}

// Each copy begins with the block behind those that have begun the one before, so that short ones
// run at once.
__global__ void __launch_bounds__(kReductionThreads)
    run_copies(const __grid_constant__ CopiesCall call) {
  await_stream();
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t begun = 0;  // blocks
  for (int i = 0; i < call.count; ++i) {
    const CopiesCall::Copy& copy = call.copies[i];
    const std::int64_t block = (blockIdx.x + gridDim.x - begun % gridDim.x) % gridDim.x;
    copy_units(copy, block * blockDim.x + threadIdx.x, stride);
    begun += (copy.bytes + 16 * kReductionThreads - 1) / (16 * kReductionThreads);
  }
}

}  // namespace

const void* copies_kernel() { return reinterpret_cast<const void*>(&run_copies); }

}  // namespace sennit::stream
