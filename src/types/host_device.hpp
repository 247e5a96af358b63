// For headers that are compiled for the host and, by nvcc, for devices as well.
#pragma once

// A source defines SENNIT_INLINE_ALL so that it has no function of such a header on its own: one
// that is compiled for newer processors, since the linker could give its functions to sources for
// older ones; and kernels of codecs, whose blocks have to stay in registers.
#if defined(__CUDACC__) && defined(SENNIT_INLINE_ALL)
#define SENNIT_HOST_DEVICE __host__ __device__ __attribute__((always_inline))
#elif defined(__CUDACC__)
#define SENNIT_HOST_DEVICE __host__ __device__
#elif defined(SENNIT_INLINE_ALL)
#define SENNIT_HOST_DEVICE __attribute__((always_inline))
#else
#define SENNIT_HOST_DEVICE
#endif

// In front of a loop over the few values that stay in registers.
#if defined(__CUDA_ARCH__) || defined(__clang__)
#define SENNIT_UNROLL _Pragma("unroll")
#elif defined(__CUDACC__)
#define SENNIT_UNROLL
#else
#define SENNIT_UNROLL _Pragma("GCC unroll 8")
#endif
