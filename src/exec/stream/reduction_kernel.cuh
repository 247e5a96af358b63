// The reduction (exec/stream/reduction.hpp) on the device, and the table of kernels, one element
// type at a time: each .cu file compiles those of a few types, so that they compile side by side.
#pragma once

#include "exec/early_launch.cuh"
#include "exec/stream/reduction.hpp"
#include "exec/unit_reducer.cuh"

namespace sennit::stream {

// Operands whose loads are in flight at once.
inline constexpr int kBatch = 4;

// Units `first`, `first + stride`, ... of all operands, which are whole and aligned.
template <class R, int kUnits>
__device__ __forceinline__ void reduce_units(const ReductionCall& call,
                                             std::int64_t first,
                                             std::int64_t stride) {
  typename R::Accumulator sums[kUnits];
  for (int begin = 0; begin < call.operand_count; begin += kBatch) {
    Unit units[kBatch][kUnits];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (begin + b < call.operand_count) {
        const auto* const data = reinterpret_cast<const Unit*>(call.operands[begin + b].data);
#pragma unroll
        for (int u = 0; u < kUnits; ++u) {
          units[b][u] = data[first + u * stride];
        }
      }
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (begin + b < call.operand_count) {
        R::prepare(units[b], call.operands[begin + b]);
#pragma unroll
        for (int u = 0; u < kUnits; ++u) {
          if (begin + b == 0) {
            R::begin(sums[u], units[b][u]);
          } else {
            R::add(sums[u], units[b][u]);
          }
        }
      }
    }
  }
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    const Unit sum = R::finish(sums[u], call);
    for (int i = 0; i < call.output_count; ++i) {
      reinterpret_cast<Unit*>(call.outputs[i])[first + u * stride] = sum;
    }
  }
}

// One unit, wherever it lies and however much of it is the user's.
template <class R>
__device__ __forceinline__ void reduce_any_unit(const ReductionCall& call, std::int64_t index) {
  const std::int64_t at = index * 16;
  const std::int64_t left = call.bytes - at;
  typename R::Accumulator sum;
  for (int i = 0; i < call.operand_count; ++i) {
    Unit unit[1] = {read_unit(call.operands[i].data + at, left)};
    R::prepare(unit, call.operands[i]);
    if (i == 0) {
      R::begin(sum, unit[0]);
    } else {
      R::add(sum, unit[0]);
    }
  }
  const Unit whole = R::finish(sum, call);
  for (int i = 0; i < call.output_count; ++i) {
    write_unit(call.outputs[i] + at, left, whole);
  }
}

__device__ inline bool is_aligned(const ReductionCall& call) {
  std::uintptr_t bits = 0;
  for (int i = 0; i < call.operand_count; ++i) {
    bits |= reinterpret_cast<std::uintptr_t>(call.operands[i].data);
  }
  for (int i = 0; i < call.output_count; ++i) {
    bits |= reinterpret_cast<std::uintptr_t>(call.outputs[i]);
  }
  return bits % 16 == 0;
}

template <class R>
__global__ void __launch_bounds__(kReductionThreads)
    reduction_kernel(const __grid_constant__ ReductionCall call) {
  await_stream();
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t units = (call.bytes + 15) / 16;
  const std::int64_t whole = is_aligned(call) ? call.bytes / 16 : 0;
  std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  // There are registers for two units where accumulators are no wider than 4 bytes an element.
  if constexpr (sizeof(typename R::Accumulator) <= 64) {
    for (; at + stride < whole; at += 2 * stride) {
      reduce_units<R, 2>(call, at, stride);
    }
  }
  for (; at < whole; at += stride) {
    reduce_units<R, 1>(call, at, stride);
  }
  for (; at < units; at += stride) {
    reduce_any_unit<R>(call, at);
  }
}

template <Dtype kDtype, ReduceOp kOp>
const void* reduction_kernel_of() {
  if constexpr (has_reduction(kDtype, kOp)) {
    return reinterpret_cast<const void*>(&reduction_kernel<UnitReducer<Element<kDtype>, kOp>>);
  } else {
    return nullptr;
  }
}

template <Dtype kDtype>
const void* reduction_kernel_of(ReduceOp op) {
  switch (op) {
#define SENNIT_REDUCE_OP(name, value, enumerator, ...) \
  case ReduceOp::enumerator:                           \
    return reduction_kernel_of<kDtype, ReduceOp::enumerator>();
#include "types/reduce_ops.def"
#undef SENNIT_REDUCE_OP
  }
  return nullptr;
}

}  // namespace sennit::stream

// Compiles the kernels of one element type.
#define SENNIT_INSTANTIATE_REDUCTIONS(dtype) \
  template const void* sennit::stream::reduction_kernel_of<dtype>(sennit::ReduceOp)
