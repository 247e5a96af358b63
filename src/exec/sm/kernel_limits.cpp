#include "exec/sm/kernel_limits.hpp"

#include "base/integers.hpp"

#include <algorithm>

namespace sennit::sm {

KernelLimits KernelLimits::of(const DeviceMemory& memory) {
  return {.shape = memory.shape(),
          .pair_shape = memory.pair_shape(),
          .blocks = memory.block_limit(),
          .steps = {.blocks = std::min(memory.block_limit(), memory.step_blocks()),
                    .scratch_bytes = DeviceMemory::kStepScratchBytes,
                    .slot_bytes = {memory.slot_bytes(StagingPlace::kDevice),
                                   memory.slot_bytes(StagingPlace::kHost)}}};
}

KernelLimits KernelLimits::described(int ranks, bool has_nvlink, int blocks) {
  const FifoPlan plan =
      FifoPlan::make(has_nvlink ? FifoPlace::kDevice : FifoPlace::kHost, ranks, blocks);
  const StagingShape& on_device = has_nvlink ? plan.staging : plan.peer_staging;
  return {
      .shape = plan.shape,
      .pair_shape = plan.pair_shape,
      .blocks = blocks,
      .steps = {.blocks = std::min(blocks, plan.staging.blocks),
                .scratch_bytes = DeviceMemory::kStepScratchBytes,
                .slot_bytes = {on_device.slot_bytes, has_nvlink ? 0 : plan.staging.slot_bytes}}};
}

void set_grid(const Geometry& grid, Packets packets, Strand& strand) {
  strand.width = grid.blocks;
  strand.tile_bytes = grid.warps * payload_bytes(packets);
  for (ChannelBinding& channel : strand.channels) {
    channel.slots = kGenerations * grid.depth;
  }
}

void set_one_sided_grid(std::int64_t longest_bytes,
                        std::int64_t piece_bytes,
                        int blocks,
                        Strand& strand) {
  strand.tile_bytes = piece_bytes;
  strand.width = static_cast<int>(
      std::clamp<std::int64_t>(ceiling(longest_bytes, piece_bytes), 1, std::int64_t{blocks}));
}

Status set_step_grid(std::int64_t bytes, const KernelLimits& limits, Strand& strand) {
  SENNIT_ASSIGN_OR_RETURN(const auto program, compile_steps(strand, 0));
  SENNIT_ASSIGN_OR_RETURN(
      const StepTiling tiling,
      tiling_of(strand.schedule->problem, {.count = bytes, .bytes = 1}, limits.steps, *program));
  strand.tile_bytes = tiling.tile_bytes;
  strand.width = tiling.blocks;
  return {};
}

}  // namespace sennit::sm
