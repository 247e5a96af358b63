// RowNorm: the rms_norm of a row (exec/row_norm.hpp) by a thread block of row_threads(). One
// routine for all kernels, so that all have the same bits.
//
//   RowNorm<Bfloat16> norm(call);
//   for each row, which begins at byte `begin`:
//     for each step in which this thread has a unit of the row:
//       last = norm.add(begin + unit, sum, norm.residual_at(begin + unit));
//     norm.finish(begin, odd, last, weight);
#pragma once

#include "exec/row_norm.hpp"
#include "exec/unit.cuh"
#include "types/element.hpp"
#include "types/reducer.hpp"

namespace sennit {

template <typename T>
class RowNorm {
 public:
  __device__ __forceinline__ explicit RowNorm(const RowNormCall& call)
      : call_(call), scale_(call.scale != nullptr ? *call.scale : 1.0F) {}

  // Steps of a row, and where this thread's unit of one begins in it; it may begin behind its end.
  __device__ __forceinline__ int steps() const { return call_.steps; }
  __device__ __forceinline__ std::int64_t unit_of(int step) const {
    return (static_cast<std::int64_t>(step) * blockDim.x + threadIdx.x) * 16;
  }
  __device__ __forceinline__ bool has(std::int64_t unit) const { return unit < call_.row_bytes; }

  // What is loaded early: of the residual, at a byte of all rows, and of the weight.
  __device__ __forceinline__ Unit residual_at(std::int64_t at) const {
    return call_.residual != nullptr ? *reinterpret_cast<const Unit*>(call_.residual + at) : Unit{};
  }
  __device__ __forceinline__ Unit weight_at(std::int64_t unit) const {
    return call_.weight != nullptr ? *reinterpret_cast<const Unit*>(call_.weight + unit) : Unit{};
  }

  // What is normalised of this unit: the sum, with the residual.
  __device__ __forceinline__ Unit add(std::int64_t at, const Unit& sum, const Unit& residual) {
    auto values = __builtin_bit_cast(Elements, sum);
    const auto others = __builtin_bit_cast(Elements, residual);
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      float value = widen(values.of[i]);
      if (call_.residual != nullptr) {
        values.of[i] = narrow(rounded::add(value, widen(others.of[i])), T{});
        value = widen(values.of[i]);
      }
      squares_ = fmaf(value, value, squares_);
    }
    const Unit unit = __builtin_bit_cast(Unit, values);
    *reinterpret_cast<Unit*>(kept() + at) = unit;
    return unit;
  }

  // What every value of the row is multiplied by; for the next row squares begin anew. All threads
  // of the block, which call it with an `odd` that changes from row to row.
  __device__ __forceinline__ float factor(int odd) {
    __shared__ float sums[2][kMostRowThreads / 32];
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      squares_ = rounded::add(squares_, __shfl_xor_sync(~0u, squares_, distance));
    }
    if (threadIdx.x % 32 == 0) {
      sums[odd][threadIdx.x / 32] = squares_;
    }
    __syncthreads();
    squares_ = 0;
    constexpr unsigned kMostWarps = kMostRowThreads / 32;
    const unsigned warp = threadIdx.x % kMostWarps;
    float all = warp < blockDim.x / 32 ? sums[odd][warp] : 0.0F;
#pragma unroll
    for (int distance = kMostWarps / 2; distance > 0; distance /= 2) {
      all = rounded::add(all, __shfl_xor_sync(~0u, all, distance));
    }
    return rsqrtf(rounded::add(rounded::multiply(all, call_.inverse_length), call_.epsilon));
  }

  __device__ __forceinline__ void store(std::int64_t at,
                                        const Unit& unit,
                                        const Unit& weight,
                                        float factor) const {
    auto values = __builtin_bit_cast(Elements, unit);
    const auto weights = __builtin_bit_cast(Elements, weight);
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const float value = rounded::multiply(widen(values.of[i]), factor);
      values.of[i] = narrow(
          call_.weight != nullptr ? rounded::multiply(value, widen(weights.of[i])) : value, T{});
    }
    *reinterpret_cast<Unit*>(call_.rows + at) = __builtin_bit_cast(Unit, values);
    if (call_.quantized != nullptr) {
      quantize(at / static_cast<std::int64_t>(sizeof(T)), values);
    }
  }

  // Of a row that begins at byte `begin` of all, each unit was added. `last` is what add() has
  // returned of this thread's unit of the last step, `weight` is that of this unit: units before it
  // are read again.
  __device__ __forceinline__ void finish(std::int64_t begin,
                                         int odd,
                                         const Unit& last,
                                         const Unit& weight) {
    const float by = factor(odd);
    // One place in the code for all steps: what it does not execute has to be fetched, too.
    const int end = steps() - 1;
#pragma unroll 1
    for (int step = 0; step <= end; ++step) {
      const std::int64_t unit = unit_of(step);
      if (!has(unit)) {
        return;  // of the last step
      }
      const bool is_last = step == end;
      store(begin + unit,
            is_last ? last : *reinterpret_cast<const Unit*>(kept() + begin + unit),
            is_last ? weight : weight_at(unit),
            by);
    }
  }

 private:
  static constexpr int kElements = static_cast<int>(sizeof(Unit) / sizeof(T));
  struct Elements {
    alignas(16) T of[kElements];
  };

  // Where add() stores what it returns.
  __device__ __forceinline__ std::byte* kept() const {
    return call_.residual != nullptr ? call_.residual : call_.rows;
  }

  __device__ __forceinline__ void quantize(std::int64_t element, const Elements& values) const {
    constexpr float kMost = 448;
    alignas(8) Float8E4m3fn quantized[kElements];
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const float value = __fdiv_rn(widen(values.of[i]), scale_);
      // A NaN stays one.
      quantized[i] = narrow(value > kMost    ? kMost
                            : value < -kMost ? -kMost
                                             : value,
                            Float8E4m3fn{});
    }
    auto* const to = reinterpret_cast<Float8E4m3fn*>(call_.quantized) + element;
    if (reinterpret_cast<std::uintptr_t>(to) % 8 == 0) {
      *reinterpret_cast<uint2*>(to) = *reinterpret_cast<const uint2*>(quantized);
      return;
    }
    for (int i = 0; i < kElements; ++i) {
      to[i] = quantized[i];
    }
  }

  const RowNormCall& call_;
  const float scale_;  // loaded early
  float squares_ = 0;  // of this thread's values of the row
};

}  // namespace sennit
