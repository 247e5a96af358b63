// Stages in shared memory through which a thread block moves messages by bulk copies
// (exec/sm/bulk_copy.cuh).
#pragma once

#include <cstddef>
#include <cstdint>

namespace sennit::sm {

// Compute capability of the first GPUs that have such copies.
inline constexpr int kBulkCopiesFrom = 90;
// Of a stage.
inline constexpr int kBulkBytes = 16 * 1024;
// Loads that are under way before the first is stored: 96 KB, 2 us of what an SM stores. The other
// stages are being read by stores meanwhile.
inline constexpr int kBulkLoads = 6;
inline constexpr int kBulkStages = 8;
// With a barrier for each stage.
inline constexpr std::size_t kBulkSharedBytes =
    kBulkStages * (std::size_t{kBulkBytes} + sizeof(std::uint64_t));

}  // namespace sennit::sm
