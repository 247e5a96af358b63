// all_reduce and all_gather of small calls as one would write them by hand for one case: two or
// four ranks, float32, pairs of elements, peers that answer. The difference to our kernels is what
// their generality costs (docs/lab/2026-11-24-kernels.md).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace sennit_bench {

inline constexpr int kMostHandRanks = 4;

// Where what comes from each rank arrives, in this GPU's memory and in that of the others.
struct HandSlots {
  ulonglong2* of[kMostHandRanks] = {};
};

class Hand {
 public:
  Hand(int rank, int ranks) : rank_(rank), ranks_(ranks) {}

  // As many ranks as there are kernels for, each of whose GPUs reaches all others.
  [[nodiscard]] bool is_for_these_ranks() const;
  // `count` elements of each rank.
  [[nodiscard]] static bool can_run(const std::string& collective, std::size_t count);
  // The next two are for all ranks, in this order.
  cudaError_t allocate(cudaIpcMemHandle_t* handle);
  cudaError_t open(const cudaIpcMemHandle_t* handles);
  cudaError_t call(const std::string& collective,
                   const float* send,
                   float* recv,
                   std::size_t count,
                   cudaStream_t stream) const;

 private:
  int rank_;
  int ranks_;
  HandSlots slots_;
  std::uint32_t* calls_ = nullptr;  // of each block, so far
};

}  // namespace sennit_bench
