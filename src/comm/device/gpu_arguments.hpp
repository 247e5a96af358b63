// What is checked of a call of a GPU rank before anything of it is made.
#pragma once

#include "base/status.hpp"
#include "drivers/cuda/cuda.hpp"
#include "world/operation.hpp"

namespace sennit {

// check_arguments(), and kInvalidArgument for memory that the GPU `device` of rank `rank` cannot
// reach.
Status check_gpu_call(
    CudaDriver& driver, int device, const Operation& operation, int rank, int ranks);

}  // namespace sennit
