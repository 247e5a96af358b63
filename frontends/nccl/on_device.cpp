#include "on_device.hpp"

#include <dlfcn.h>

namespace sennit_nccl {
namespace {

using CudaContext = struct CUctx_st*;

// CUDA's driver is loaded wherever a communicator has a device; its run-time library need not be.
template <typename... Arguments>
bool driver_does(const char* name, Arguments... arguments) {
  static void* const driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  auto* const function =
      driver != nullptr ? reinterpret_cast<int (*)(Arguments...)>(::dlsym(driver, name)) : nullptr;
  return function != nullptr && function(arguments...) == 0;
}

}  // namespace

// The context that CUDA's run-time library uses for a device; it is active, as our rank uses it.
OnDevice::OnDevice(int device) {
  CudaContext context = nullptr;
  if (device < 0 || !driver_does("cuDevicePrimaryCtxRetain", &context, device)) {
    return;
  }
  if (driver_does("cuCtxPushCurrent_v2", context)) {
    retained_ = device;
  } else {
    driver_does("cuDevicePrimaryCtxRelease_v2", device);
  }
}

OnDevice::~OnDevice() {
  if (retained_ >= 0) {
    CudaContext popped = nullptr;
    driver_does("cuCtxPopCurrent_v2", &popped);
    driver_does("cuDevicePrimaryCtxRelease_v2", retained_);
  }
}

}  // namespace sennit_nccl
