#include "memory/fifo_plan.hpp"

#include <algorithm>

namespace sennit {
namespace {

constexpr std::size_t kPage = 4096;

constexpr std::size_t in_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
// Packets lie in whole lines of memory, whose stores arrive together.
constexpr std::size_t in_packets(std::size_t bytes) {
  return (bytes + sm::kPacketBytes - 1) / sm::kPacketBytes * sm::kPacketBytes;
}

// Fewer blocks get more packets each: a round moves as much. Rounds of large messages are longer,
// since blocks come to a short stand at the end of each.
constexpr int kLl128WarpPackets = 256;
constexpr int kSlotsWarpPackets = 512;

// An SM stores some 43 GB/s, so these fill a wire of 390 GB/s three times over: as many as hide the
// waits between steps. Not measured.
constexpr int kStepBlocks = 32;
constexpr std::size_t kStepSlotBytes = std::size_t{128} << 10;

// What a packet's depth is, `blocks` decide; room is only for those that the GPU has room for.
FifoPlan on_devices(int ranks, int blocks, int resident) {
  const int put_blocks = std::clamp(blocks / 2, 1, 64);
  const int pair_blocks = std::min(put_blocks, resident);
  // Each rank has slots from all others: with more of them, less of each.
  const int crowd = std::max(1, ranks / 4);
  return {.place = FifoPlace::kDevice,
          .ranks = ranks,
          .shape = {.ranks = ranks,
                    .ll_blocks = std::min({32, blocks, resident}),
                    .wide_blocks = std::min(blocks, resident),
                    .ll128_depth = std::max(1, kLl128WarpPackets / blocks),
                    .slots_depth = std::max(1, kSlotsWarpPackets / blocks / crowd)},
          // A sender and a receiver, one hop; as many blocks as one direction may have of a GPU.
          // An answer takes about as long as 2 MB on their way, and there are two generations.
          .pair_shape = {.ranks = 2,
                         .one_way = true,
                         .phases = 1,
                         .ll_blocks = std::min(16, pair_blocks),
                         .wide_blocks = pair_blocks,
                         .ll128_depth = 4,
                         .slots_depth = std::max(2, 8 / crowd)},
          .put_blocks = put_blocks,
          .staging = {.blocks = std::min({kStepBlocks, blocks, resident}),
                      .slot_bytes = kStepSlotBytes}};
}

// Ll carries what is small, a packet or a few in each block. Of plain packets a wire to the host
// carries 50 GB/s, and a round of a block, which waits for its readers, takes some 10 us: 500 KB
// under way fill it, and a generation of 32 blocks has that from each source. Small FIFOs stay in
// the host's cache; more ranks share its memory, and have less of it for each source.
//
// As many blocks run calls step by step. There a round trip is all the steps of a tile, some 30 us,
// so it takes a megabyte under way. A close peer has room of its own for two channels where a
// hierarchical schedule has one through the host.
FifoPlan on_host(int ranks, int blocks) {
  const int plain_blocks = ranks <= 4 ? 32 : ranks <= 8 ? 16 : 8;
  const int step_blocks = std::min(plain_blocks, blocks);
  const int ll_blocks = std::min(ranks <= 8 ? 4 : 2, blocks);
  return {.place = FifoPlace::kHost,
          .ranks = ranks,
          .shape = {.ranks = ranks,
                    .ll_blocks = ll_blocks,
                    .wide_blocks = 0,
                    .plain_blocks = std::min(plain_blocks, blocks)},
          .pair_shape = {.ranks = 2,
                         .one_way = true,
                         .phases = 1,
                         .ll_blocks = ll_blocks,
                         .wide_blocks = 0,
                         .plain_blocks = std::min(plain_blocks / 2, blocks)},
          .put_blocks = std::max(ll_blocks, std::min(plain_blocks / 2, blocks)),
          .staging = {.blocks = step_blocks, .slot_bytes = kStepSlotBytes / (ranks <= 8 ? 2 : 4)},
          .peer_staging = {.blocks = step_blocks, .slot_bytes = kStepSlotBytes}};
}

}  // namespace

FifoPlan FifoPlan::make(FifoPlace place, int ranks, int blocks, int resident) {
  switch (place) {
    case FifoPlace::kDevice:
      return on_devices(ranks, blocks, resident);
    case FifoPlace::kHost:
      return on_host(ranks, blocks);
  }
  return {};
}

std::size_t FifoPlan::pair_bytes() const {
  // The words that signal the sender that a round has begun lie behind those of the other
  // direction.
  return in_packets(pair_shape.bytes() + pair_shape.started_bytes() +
                    message_words().all() * sizeof(std::uint64_t));
}

std::size_t FifoPlan::message_offset(int peer) const {
  return pair_offset(peer) + pair_shape.bytes() + pair_shape.started_bytes();
}

std::size_t FifoPlan::pair_offset(int peer) const {
  return in_packets(shape.bytes()) + static_cast<std::size_t>(peer) * pair_bytes();
}

std::size_t FifoPlan::staging_offset(int writer) const {
  return in_pages(pair_offset(ranks)) + static_cast<std::size_t>(writer) * staging.bytes();
}

std::size_t FifoPlan::bytes() const { return in_pages(staging_offset(ranks)); }

}  // namespace sennit
