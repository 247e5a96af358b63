#include "comm/device/arena_plan.hpp"

#include "exec/sm/put_call.hpp"

#include <algorithm>

namespace sennit {
namespace {

constexpr std::size_t kPage = 4096;

// Fewer blocks get more packets each: a round moves as much.
constexpr int kWarpPackets = 512;

ArenaPlan on_devices(int ranks, int blocks) {
  return {.place = ArenaPlace::kDevice,
          .ranks = ranks,
          .shape = {.ranks = ranks,
                    .ll_blocks = std::min(32, blocks),
                    .ll128_blocks = blocks,
                    .ll128_depth = std::max(1, kWarpPackets / blocks)},
          // A sender and a receiver, one hop; as many blocks as one direction may have of a GPU.
          .pair_shape = {.ranks = 2, .phases = 1, .ll_blocks = 16, .ll128_blocks = 64}};
}

// Ll carries what is small, a packet or a few in each block. Of plain packets a wire to the host
// carries 50 GB/s, and a round of a block, which waits for its readers, takes some 10 us: 500 KB
// under way fill it, and a generation of 32 blocks has that from each source. Small arenas stay in
// the host's cache; more ranks share its memory, and have less of it for each source.
ArenaPlan on_host(int ranks, int blocks) {
  const int plain_blocks = ranks <= 4 ? 32 : ranks <= 8 ? 16 : 8;
  const auto shape = [&](int sources, int phases, int plain) -> sm::ArenaShape {
    return {.ranks = sources,
            .phases = phases,
            .ll_blocks = std::min(ranks <= 8 ? 4 : 2, blocks),
            .ll128_blocks = 0,
            .plain_blocks = std::min(plain, blocks)};
  };
  return {.place = ArenaPlace::kHost,
          .ranks = ranks,
          .shape = shape(ranks, 2, plain_blocks),
          .pair_shape = shape(2, 1, plain_blocks / 2)};
}

}  // namespace

ArenaPlan ArenaPlan::make(ArenaPlace place, int ranks, int blocks) {
  switch (place) {
    case ArenaPlace::kDevice:
      return on_devices(ranks, blocks);
    case ArenaPlace::kHost:
      return on_host(ranks, blocks);
  }
  return {};
}

std::size_t ArenaPlan::pair_bytes() const {
  // The words that tell the sender that a round has begun lie behind those of the other direction.
  return pair_shape.bytes() + pair_shape.started_bytes();
}

std::size_t ArenaPlan::pair_offset(int peer) const {
  return shape.bytes() + static_cast<std::size_t>(peer) * pair_bytes();
}

std::size_t ArenaPlan::bytes() const {
  const int blocks = shape.most_blocks();
  const std::size_t words = sm::put_words(ranks, blocks) + static_cast<std::size_t>(blocks);
  const std::size_t end = put_offset() + words * sizeof(std::uint64_t);
  return (end + kPage - 1) / kPage * kPage;
}

}  // namespace sennit
