// DeviceSharing: whether the ranks of a communicator share GPUs.
#pragma once

#include <cstdint>
#include <vector>

namespace sennit {

enum class DeviceSharing : std::uint8_t {
  kNone,    // each rank has a GPU of its own
  kSome,    // some share one, or are threads of one process
  kAtOnce,  // all are processes of one GPU, under CUDA's Multi-Process Service
  kInTurn,  // without it: the GPU runs the kernels of one of them at a time
};

struct GpusOfRanks {
  DeviceSharing sharing = DeviceSharing::kNone;
  // The GPU of each rank, by the first rank that has it; empty: each has one of its own.
  std::vector<int> by_rank{};
};

}  // namespace sennit
