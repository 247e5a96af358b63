// Stages in shared memory through which a thread block moves messages by bulk copies
// (exec/sm/bulk_copy.cuh).
#pragma once

#include "memory/fifo.hpp"

#include <cstddef>
#include <cstdint>

namespace sennit::sm {

// Compute capability of the first GPUs that have such copies.
inline constexpr int kBulkCopiesFrom = 90;
// Of a stage: one slice of a unit for each thread, as blocks that store by threads take them.
inline constexpr int kBulkBytes = kThreads * 16;
// Loads that are under way before the first is stored: 64 KB, 1.5 us of what an SM stores. The
// other stages are being read by stores meanwhile.
inline constexpr int kBulkLoads = 8;
inline constexpr int kBulkStages = 12;
// With a barrier for each stage.
inline constexpr std::size_t kBulkSharedBytes =
    kBulkStages * (std::size_t{kBulkBytes} + sizeof(std::uint64_t));

}  // namespace sennit::sm
