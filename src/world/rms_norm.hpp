// RmsNorm: what an all_reduce of GPU ranks goes on to do with its sum, row by row:
//
//   residual  = residual + sum            rounded to the type of the call
//   output    = residual / sqrt(mean(residual * residual) + epsilon) * weight
//   quantized = output / scale            as FP8 E4M3, limited to 448
//
// It has the bits of an all_reduce that is followed by a kernel which does the rest.
#pragma once

#include "base/status.hpp"
#include "types/types.hpp"

#include <cstdint>

namespace sennit {

// Buffers are memory of the device. `residual`, `weight` and those of the call begin on boundaries
// of 16 bytes, and rows are a multiple of that.
struct RmsNorm {
  static constexpr std::int64_t kAlignBytes = 16;
  // CallWords has as many bits.
  static constexpr std::int64_t kMostElements = (std::int64_t{1} << 24) - 1;

  std::int64_t row_elements = 0;
  float epsilon = 0;
  void* residual = nullptr;      // null: zeros, and nothing is stored
  const void* weight = nullptr;  // of one row; null: ones
  void* quantized = nullptr;     // null: not stored
  const float* scale = nullptr;  // of one element; null: 1
};

// Of an all_reduce of `count` elements; the same on all ranks.
Status check_rows(const RmsNorm& norm, std::int64_t count, Dtype dtype);
// Of this rank's buffers: what is written overlaps with no other, but for recv with send.
Status check_places(
    const RmsNorm& norm, const void* send, const void* recv, std::int64_t count, Dtype dtype);

}  // namespace sennit
