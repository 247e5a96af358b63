// DeviceSharing: whether the ranks of a communicator share GPUs.
#pragma once

#include <cstdint>

namespace sennit {

enum class DeviceSharing : std::uint8_t {
  kNone,    // each rank has a GPU of its own
  kSome,    // some share one
  kInTurn,  // all are processes of one GPU, which runs the kernels of one of them at a time
};

}  // namespace sennit
