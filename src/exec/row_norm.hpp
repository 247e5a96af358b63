// RowNormCall: what an all_reduce with rms_norm does with its sum (world/rms_norm.hpp), as the
// parameter of a kernel: one of its own behind any all_reduce (exec/row_norm.cu), or that of an
// all_reduce which normalises rows itself (exec/sm/norming_kernel.cuh).
#pragma once

#include "types/tables.hpp"

#include <cstddef>
#include <cstdint>

namespace sennit {

struct RowNormCall {
  std::byte* rows = nullptr;  // sums, and what they become
  std::byte* residual = nullptr;
  const std::byte* weight = nullptr;
  std::byte* quantized = nullptr;
  const float* scale = nullptr;
  std::int64_t row_bytes = 0;
  std::int64_t row_count = 0;
  int steps = 1;             // of a row: see row_steps()
  float inverse_length = 1;  // of a row, in elements
  float epsilon = 0;
};

// A thread has a unit of 16 bytes of each step of a row. Equal for all kernels: the order in which
// squares are added up follows from it.
inline constexpr int kMostRowThreads = 512;
constexpr int row_threads(std::int64_t row_bytes) {
  const std::int64_t warps = (row_bytes + 511) / 512;
  return static_cast<int>(warps * 32 < kMostRowThreads ? warps * 32 : kMostRowThreads);
}

constexpr int row_steps(std::int64_t row_bytes) {
  const std::int64_t step = std::int64_t{row_threads(row_bytes)} * 16;
  return static_cast<int>((row_bytes + step - 1) / step);
}

// More find no room at once.
inline constexpr std::int64_t kMostRowBlocks = 1024;

// The kernel of its own, in thread blocks of row_threads(); null for types that check_rows()
// refuses, and a mark in a build without CUDA.
const void* row_norm_kernel(Dtype dtype);

}  // namespace sennit
