// Float arithmetic that is rounded after every operation, on both the host and devices, so that
// both compute the same bits. A device compiler joins a product and a sum into one operation that
// rounds once unless an option forbids it; on the host -ffp-contract=off does (see
// cmake/SennitOptions.cmake).
#pragma once

#include "types/host_device.hpp"

namespace sennit::rounded {

#if defined(__CUDA_ARCH__)

__device__ inline float add(float a, float b) { return __fadd_rn(a, b); }
__device__ inline float multiply(float a, float b) { return __fmul_rn(a, b); }
__device__ inline float divide(float a, float b) { return __fdiv_rn(a, b); }
__device__ inline double add(double a, double b) { return __dadd_rn(a, b); }
__device__ inline double multiply(double a, double b) { return __dmul_rn(a, b); }
__device__ inline double divide(double a, double b) { return __ddiv_rn(a, b); }

#else

template <typename Float>
SENNIT_HOST_DEVICE inline Float add(Float a, Float b) {
  return a + b;
}
template <typename Float>
SENNIT_HOST_DEVICE inline Float multiply(Float a, Float b) {
  return a * b;
}
template <typename Float>
SENNIT_HOST_DEVICE inline Float divide(Float a, Float b) {
  return a / b;
}

#endif

}  // namespace sennit::rounded
