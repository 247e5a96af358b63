// StepCall: one call that runs a schedule step by step, as the kernel's parameter. Any schedule of
// one lane a rank (schedule/one_lane.hpp), whatever its number of hops.
//
// A call is cut into tiles as schedules are. Block b of a kernel is a copy of the lane: it runs
// tiles b, b + blocks, ... one step after the other, all threads of it in each step, and meets
// block b of other ranks through staging buffers (memory/staging.hpp). So no block waits for
// another of its own rank, and they need not be resident together.
//
// The program stands in the parameter, too: nothing has to be brought to the device before a call,
// which may be captured the first time it is made.
#pragma once

#include "memory/fifo.hpp"
#include "memory/staging.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace sennit::sm {

// Where an operand of a step is read, or its result written.
enum class PlaceKind : std::uint8_t { kInput, kOutput, kScratch, kMessage };
struct Place {
  PlaceKind kind = PlaceKind::kInput;
  // The block; of scratch, among those of all scratches; of a message, the port among the step's.
  std::int16_t index = 0;
};

// One end of a message.
struct Port {
  std::int8_t peer = 0;
  std::uint8_t channel = 0;    // among those from writer to reader
  std::uint16_t index = 0;     // among the channel's messages of a tile
  std::uint16_t per_tile = 1;  // how many these are
};

// A step moves or reduces `parts` blocks: each has so many operands, in the order in which they are
// reduced, and the result goes to all targets. Its messages have a part for each.
struct CodedStep {
  std::uint16_t first_place = 0;  // of each part: operands, then targets
  std::uint16_t first_port = 0;   // `ins`, then `outs`
  std::uint16_t first_part = 0;
  std::uint8_t parts = 0;
  std::uint8_t operands = 0;
  std::uint8_t targets = 0;
  std::uint8_t ins = 0;
  std::uint8_t outs = 0;
  bool pre = false;   // operands out of the input are scaled
  bool post = false;  // the result is the finished sum
};

inline constexpr int kMostSteps = 128;
inline constexpr int kMostPorts = 384;
inline constexpr int kMostPlaces = 1024;
inline constexpr int kMostParts = 512;
// Of one step.
inline constexpr int kMostStepPlaces = 256;
inline constexpr int kMostStepPorts = 32;

// What one rank does in one tile.
struct StepProgram {
  std::array<CodedStep, kMostSteps> steps{};
  std::array<Port, kMostPorts> ports{};
  std::array<Place, kMostPlaces> places{};
  std::array<std::int16_t, kMostParts> blocks{};  // of each part: the one that is as long
  std::int32_t step_count = 0;
  std::uint32_t sends_to = 0;      // ranks, as bits
  std::uint32_t hears_from = 0;    // ranks, as bits
  std::int32_t slots = 1;          // of a channel
  std::int32_t message_parts = 1;  // of the largest message
  std::int32_t per_tile = 0;       // messages of a tile on any one channel, at most
  std::int32_t scratch_blocks = 0;
  // From any one rank to any other, at most; by where the staging buffer of the two lies.
  std::array<std::int32_t, kStagingPlaces> channels{};
  std::int8_t rank = 0;
  std::int8_t ranks = 1;
};

struct StepCall {
  StepProgram program;

  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* scratch = nullptr;    // of this rank, block after block
  std::uint64_t* calls = nullptr;  // by block: finished so far
  ErrorWord* error_word = nullptr;
  std::array<std::byte*, kMaxRanks> inbox{};      // by rank: what it writes for this one
  std::array<std::byte*, kMaxRanks> outbox{};     // by rank: the one that this rank writes for it
  std::array<StagingShape, kMaxRanks> staging{};  // by rank: of those with it
  std::int64_t scratch_stride = 0;                // of a block of the kernel

  // Block i of a buffer is [i * block_bytes, (i + 1) * block_bytes), cut at total_bytes.
  std::int64_t block_bytes = 0;
  std::int64_t total_bytes = 0;
  std::int64_t tile_bytes = 0;  // of each block
  std::int64_t tiles = 0;
  std::int32_t blocks = 1;  // of the kernel

  std::uint32_t fingerprint = 0;
  std::uint64_t deadline_ns = 0;                   // of a wait; 0: none
  alignas(16) std::array<std::byte, 16> scalar{};  // factor of premul_sum
  const std::byte* scalar_on_device = nullptr;     // not null: where that factor is read instead
};

constexpr std::int64_t block_begin(const StepCall& call, int index) {
  return std::min(index * call.block_bytes, call.total_bytes);
}

// Bytes of block `index` that belong to `tile`; not positive: there are none.
constexpr std::int64_t tile_length(const StepCall& call, int index, std::int64_t tile) {
  const std::int64_t length =
      std::min(call.block_bytes, call.total_bytes - block_begin(call, index));
  return std::min(call.tile_bytes, length - tile * call.tile_bytes);
}

// Messages of a port's channel up to that of the block's `turn`-th tile, with it.
constexpr std::int64_t count_of(const Port& port, std::int64_t turn) {
  return turn * port.per_tile + port.index + 1;
}

// In the staging buffer of its channel: where part 0 of a port's message lies, the `count`-th.
constexpr std::size_t slot_at(const StepCall& call,
                              const Port& port,
                              int block,
                              std::int64_t count) {
  const std::int64_t slot =
      std::int64_t{port.channel} * call.program.slots + (count - 1) % call.program.slots;
  const StagingShape& staging = call.staging[static_cast<std::uint8_t>(port.peer)];
  return staging.words_bytes() + static_cast<std::size_t>(block) * staging.slot_bytes +
         static_cast<std::size_t>(slot * call.program.message_parts * call.tile_bytes);
}

}  // namespace sennit::sm
