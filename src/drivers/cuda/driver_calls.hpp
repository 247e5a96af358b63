// For the sources of this driver: what CUDA answers as a Status, and functions of the CUDA driver
// itself, which the library does not link: a build with CUDA must load where there is no driver.
#pragma once

#include "base/status.hpp"

#include <cuda.h>
#include <cuda_runtime.h>

#include <string_view>

namespace sennit::cuda {

// A failure is also kept by the runtime for the next one who asks; it is told here, so it is taken.
inline Status told(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) {
    return {};
  }
  (void)cudaGetLastError();
  return fail(Code::kSystemError,
              "{} failed: {} ({})",
              what,
              cudaGetErrorString(error),
              cudaGetErrorName(error));
}

inline Status told(CUresult error, std::string_view what) {
  return error == CUDA_SUCCESS
             ? Status()
             : fail(error == CUDA_ERROR_NOT_SUPPORTED ? Code::kUnsupported : Code::kSystemError,
                    "{} failed: the CUDA driver answers {}",
                    what,
                    static_cast<int>(error));
}

// Null where the driver has no such function.
template <typename Function>
Function driver_function(const char* symbol) {
  // The version of which the declarations in cuda.h are.
  constexpr unsigned kVersion = 12000;
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(symbol, &function, kVersion, cudaEnableDefault, &found);
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess) {
    (void)cudaGetLastError();
    return nullptr;
  }
  return reinterpret_cast<Function>(function);
}

inline CUdeviceptr to_address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

}  // namespace sennit::cuda
