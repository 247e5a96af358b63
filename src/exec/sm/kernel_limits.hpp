// KernelLimits: what bounds the grids of a communicator's kernels; equal on all ranks. Kernels of
// packets and the interpreter are launched by it, and plans that are simulated get their tiles and
// copies from it.
#pragma once

#include "exec/sm/geometry.hpp"
#include "exec/sm/step_program.hpp"
#include "memory/device_memory.hpp"
#include "memory/fifo_plan.hpp"
#include "schedule/plan.hpp"
#include "select/select.hpp"

#include <algorithm>
#include <cstdint>

namespace sennit::sm {

struct KernelLimits {
  FifoShape shape;       // of collectives
  FifoShape pair_shape;  // of messages
  int blocks = 1;
  StepLimits steps;

  static KernelLimits of(const DeviceMemory& memory);
  // Of `ranks` with a GPU each, whose kernels may have so many blocks.
  static KernelLimits described(int ranks, bool has_nvlink, int blocks);

  // Of a call that asks for fewer.
  [[nodiscard]] KernelLimits within(const CallRequest& request) const {
    KernelLimits limits = *this;
    limits.blocks = request.within(blocks);
    limits.steps.blocks = request.within(steps.blocks);
    return limits;
  }

  // For ranges, or messages, of up to `longest_bytes`.
  [[nodiscard]] Geometry grid_of_call(std::int64_t longest_bytes, Packets packets) const {
    return geometry_for(longest_bytes, packets, shape, blocks);
  }
  // A send and a recv fill a GPU.
  [[nodiscard]] int blocks_of_send() const { return std::max(1, blocks / 2); }
  [[nodiscard]] Geometry grid_of_message(std::int64_t bytes, Packets packets) const {
    return geometry_for(bytes, packets, pair_shape, blocks_of_send());
  }
};

// The grid as a plan has it: a thread block is a copy of the lanes, and what its warps move at once
// is a tile. Two rounds of packets are the slots of a channel.
void set_grid(const Geometry& grid, Packets packets, Strand& strand);
// Of blocks that are stored in place, which need no slots: a model, since the lanes of such a
// launch depend on its receivers, too.
inline constexpr std::int64_t kPieceBytes = 16 * 1024;
// Of parts that are read: as much as a thread block has on its way.
inline constexpr std::int64_t kReadBytes = 64 * 1024;
void set_one_sided_grid(std::int64_t longest_bytes,
                        std::int64_t piece_bytes,
                        int blocks,
                        Strand& strand);
// Of a schedule that is interpreted; `bytes` as Problem takes them. kUnsupported as bind() says.
Status set_step_grid(std::int64_t bytes, const KernelLimits& limits, Strand& strand);

}  // namespace sennit::sm
