// DeviceSharing: whether the ranks of a communicator share GPUs.
#pragma once

#include <cstdint>

namespace sennit {

enum class DeviceSharing : std::uint8_t {
  kNone,    // each rank has a GPU of its own
  kSome,    // some share one, or are threads of one process
  kAtOnce,  // all are processes of one GPU, under CUDA's Multi-Process Service
  kInTurn,  // without it: the GPU runs the kernels of one of them at a time
};

}  // namespace sennit
