// For headers that are compiled for the host and, by nvcc, for devices as well.
#pragma once

#if defined(__CUDACC__)
#define SENNIT_HOST_DEVICE __host__ __device__
#else
#define SENNIT_HOST_DEVICE
#endif
