// The kernel by which a rank reduces what the copy engines of others have put into its staging
// memory, or a leader what lies in the memory of all: one call reduces a stretch of bytes of all
// operands, in their order, and stores it: once, or a leader for several ranks. It waits for no
// other rank.
#pragma once

#include "types/tables.hpp"
#include "world/stream_words.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace sennit::stream {

// The kernel's parameter.
struct ReductionCall {
  struct Operand {
    const std::byte* data = nullptr;
    alignas(16) std::array<std::byte, 16> scalar{};  // of premul_sum: that of its rank
  };

  std::array<Operand, kMaxRanks> operands{};    // in the order in which they are combined
  std::array<std::byte*, kMaxRanks> outputs{};  // the first may be one of the operands
  std::int64_t bytes = 0;                       // whole elements
  std::int32_t operand_count = 0;
  std::int32_t output_count = 1;
  std::int32_t ranks = 1;  // what avg divides by
};

// Half of an H200's SMs, which reduce 32 MB of 4 ranks in 60 us; 32 blocks took 94 us and cost an
// all_reduce of 256 MB 1 %, 128 gained nothing more (`h200x4-copies-that-put`).
inline constexpr unsigned kReductionBlocks = 64;
inline constexpr unsigned kReductionThreads = 512;
// Of a leader, while nothing else runs: two an SM of an H100.
inline constexpr unsigned kLeaderBlocks = 264;

constexpr bool has_reduction(Dtype dtype, ReduceOp op) {
  return has_operator(dtype, op) && has_every_kernel(op);
}

// As CudaDriver::launch takes it; null without has_reduction(), and in a build without CUDA.
const void* reduction_kernel(Dtype dtype, ReduceOp op);

}  // namespace sennit::stream
