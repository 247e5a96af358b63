// For the sources of this driver: what CUDA answers as a Status, and functions of the CUDA driver
// itself, which the library does not link: a build with CUDA must load where there is no driver.
#pragma once

#include "base/status.hpp"
#include "drivers/cuda/mps_errors.hpp"

#include <cuda.h>
#include <cuda_runtime.h>

#include <string_view>

namespace sennit::cuda {

// The runtime also keeps a failure for the next call that asks. It is reported here, so it is
// cleared.
inline Status to_status(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) {
    return {};
  }
  (void)cudaGetLastError();
  return fail(Code::kSystemError,
              "{} failed: {} ({}){}",
              what,
              cudaGetErrorString(error),
              cudaGetErrorName(error),
              mps_advice(static_cast<int>(error)));
}

inline Status to_status(CUresult error, std::string_view what) {
  return error == CUDA_SUCCESS
             ? Status()
             : fail(error == CUDA_ERROR_NOT_SUPPORTED ? Code::kUnsupported : Code::kSystemError,
                    "{} failed: the CUDA driver answers {}{}",
                    what,
                    static_cast<int>(error),
                    mps_advice(static_cast<int>(error)));
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

inline cudaStream_t to_stream(void* stream) { return static_cast<cudaStream_t>(stream); }

inline CUdeviceptr to_address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

// While there is one, what its thread does is no concern of captures in other threads. They would
// fail where it takes memory or asks for an event, though that is no part of them.
class CaptureScope {
 public:
  CaptureScope()
      : status_(to_status(cudaThreadExchangeStreamCaptureMode(&mode_), "leaving captures")) {}
  ~CaptureScope() {
    if (status_.ok()) {
      (void)cudaThreadExchangeStreamCaptureMode(&mode_);
    }
  }
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;

  [[nodiscard]] const Status& status() const { return status_; }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
  Status status_;
};

}  // namespace sennit::cuda
