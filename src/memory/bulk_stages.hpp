// Stages in shared memory through which a thread block moves messages by bulk copies
// (exec/sm/bulk_copy.cuh).
#pragma once

#include <cstddef>
#include <cstdint>

namespace sennit::sm {

// Compute capability of the first GPUs that have such copies.
inline constexpr int kBulkCopiesFrom = 90;
// Of a stage. With 8 blocks 24 stages of 8 KB put 350 GB/s, 12 of them 273, 12 of 16 KB 257, however
// many were loads; stores by 512 threads 345 (docs/lab/2026-11-26-few-sms.md).
inline constexpr int kBulkBytes = 8 * 1024;
// Loads that are under way before the first is stored. The other stages are read by stores
// meanwhile, which takes longer, since they wait for the wire.
inline constexpr int kBulkLoads = 8;
inline constexpr int kBulkStages = 24;
// With a barrier for each stage.
inline constexpr std::size_t kBulkSharedBytes =
    kBulkStages * (std::size_t{kBulkBytes} + sizeof(std::uint64_t));

}  // namespace sennit::sm
