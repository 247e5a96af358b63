// What the front end for MPI says of cuda.h, compared with it when this is compiled.
#include "cuda_abi.hpp"

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace sennit_mpi::cuda_abi {

static_assert(std::is_same_v<std::make_unsigned_t<CUdeviceptr>, unsigned long long> &&
              sizeof(DevicePointer) == sizeof(CUdeviceptr));
static_assert(kSuccess == CUDA_SUCCESS && kNotReady == CUDA_ERROR_NOT_READY);
static_assert(kContextOf == CU_POINTER_ATTRIBUTE_CONTEXT);
static_assert(kMemoryTypeOf == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
static_assert(kIsManaged == CU_POINTER_ATTRIBUTE_IS_MANAGED);
static_assert(kDeviceOf == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
static_assert(kHostMemory == CU_MEMORYTYPE_HOST && kDeviceMemory == CU_MEMORYTYPE_DEVICE);
static_assert(kForAllContexts == CU_MEMHOSTALLOC_PORTABLE);
static_assert(kNonBlocking == CU_STREAM_NON_BLOCKING);

static_assert(sizeof(Copy2d) == sizeof(CUDA_MEMCPY2D));
static_assert(offsetof(Copy2d, from_type) == offsetof(CUDA_MEMCPY2D, srcMemoryType));
static_assert(offsetof(Copy2d, from_host) == offsetof(CUDA_MEMCPY2D, srcHost));
static_assert(offsetof(Copy2d, from_device) == offsetof(CUDA_MEMCPY2D, srcDevice));
static_assert(offsetof(Copy2d, from_pitch) == offsetof(CUDA_MEMCPY2D, srcPitch));
static_assert(offsetof(Copy2d, to_type) == offsetof(CUDA_MEMCPY2D, dstMemoryType));
static_assert(offsetof(Copy2d, to_host) == offsetof(CUDA_MEMCPY2D, dstHost));
static_assert(offsetof(Copy2d, to_device) == offsetof(CUDA_MEMCPY2D, dstDevice));
static_assert(offsetof(Copy2d, to_pitch) == offsetof(CUDA_MEMCPY2D, dstPitch));
static_assert(offsetof(Copy2d, width) == offsetof(CUDA_MEMCPY2D, WidthInBytes));
static_assert(offsetof(Copy2d, height) == offsetof(CUDA_MEMCPY2D, Height));

}  // namespace sennit_mpi::cuda_abi
