// LoadedKernels: kernels that a communicator loads when it first uses them.
#pragma once

#include "base/status.hpp"
#include "drivers/cuda/cuda.hpp"

#include <set>

namespace sennit {

class LoadedKernels {
 public:
  // `driver` outlives the result.
  explicit LoadedKernels(CudaDriver& driver) : driver_(driver) {}

  Status load(const void* kernel) {
    if (!loaded_.contains(kernel)) {
      SENNIT_RETURN_IF_ERROR(driver_.preload(kernel));
      loaded_.insert(kernel);
    }
    return {};
  }
  // For a launch into `stream`. While it captures CUDA is left to load the kernel when the graph is
  // made.
  Status load_for(void* stream, const void* kernel) {
    if (loaded_.contains(kernel)) {
      return {};
    }
    SENNIT_ASSIGN_OR_RETURN(const bool is_capturing, driver_.is_capturing(stream));
    return is_capturing ? Status() : load(kernel);
  }

 private:
  CudaDriver& driver_;
  std::set<const void*> loaded_;
};

}  // namespace sennit
