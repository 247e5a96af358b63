// The binary interface of the CUDA driver, as far as it is used here: cuda.h is not where this is
// built. A test compares the two.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sennit_mpi::cuda_abi {

using DevicePointer = std::uint64_t;
using Stream = void*;

constexpr int kSuccess = 0;
constexpr int kNotReady = 600;
constexpr int kContextOf = 1;            // CU_POINTER_ATTRIBUTE_CONTEXT
constexpr int kMemoryTypeOf = 2;         // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
constexpr int kIsManaged = 8;            // CU_POINTER_ATTRIBUTE_IS_MANAGED
constexpr int kDeviceOf = 9;             // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
constexpr unsigned kHostMemory = 1;      // CU_MEMORYTYPE_HOST
constexpr unsigned kDeviceMemory = 2;    // CU_MEMORYTYPE_DEVICE
constexpr unsigned kForAllContexts = 1;  // CU_MEMHOSTALLOC_PORTABLE
constexpr unsigned kNonBlocking = 1;     // CU_STREAM_NON_BLOCKING

// CUDA_MEMCPY2D
struct Copy2d {
  std::size_t from_x = 0;
  std::size_t from_y = 0;
  unsigned from_type = 0;
  const void* from_host = nullptr;
  DevicePointer from_device = 0;
  void* from_array = nullptr;
  std::size_t from_pitch = 0;
  std::size_t to_x = 0;
  std::size_t to_y = 0;
  unsigned to_type = 0;
  void* to_host = nullptr;
  DevicePointer to_device = 0;
  void* to_array = nullptr;
  std::size_t to_pitch = 0;
  std::size_t width = 0;
  std::size_t height = 0;
};

}  // namespace sennit_mpi::cuda_abi
