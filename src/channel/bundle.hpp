// Bundle: one channel over several rings, one a path, for host and device alike.
//
// Message s of the bundle lies on one of the paths, at that path's next position. Its slot's full
// word holds s, not the position; free words hold positions, as those of a single ring do. The
// reader of message s watches the next slot of every path and takes the one that says s: both ends
// count alike, so there is nothing to agree on and no way back.
//
//   writer:  p = a path with may_write(ring[p].free, counts.position[p], slots)
//            ... fill the slot ...
//            publish(ring[p].full, counts.sequence, fp)       partner: is_full
//            pass(counts, p)
//   reader:  p = the path with is_full(ring[p].full, counts.sequence, fp)
//            ... use the slot ...
//            release_slot(ring[p].free, counts.position[p])   partner: may_write
//            pass(counts, p)
//
// A call begins with the sum of its rings' positions as sequence number. Each message moves one of
// them, so numbers go on from call to call; with one path this is the count of a single ring.
#pragma once

#include "channel/channel.hpp"

#include <cstdint>

namespace sennit::channel {

inline constexpr int kMaxPaths = 4;

struct BundleCounts {
  std::uint64_t sequence = 0;              // of the next message
  std::uint64_t position[kMaxPaths] = {};  // of the next message on each path
};

SENNIT_CHANNEL_FUNCTION constexpr void add_path(BundleCounts& counts,
                                                int path,
                                                std::uint64_t position) {
  counts.position[path] = position;
  counts.sequence += position;
}

SENNIT_CHANNEL_FUNCTION constexpr void pass(BundleCounts& counts, int path) {
  ++counts.position[path];
  ++counts.sequence;
}

// A slot says which message it holds in 32 bits, and on a path at rest its last word stays. So that
// no stale word can name a message to come, every path is used at least once in this many messages:
// with 4096 slots, the most there are, a word is then at most 2^31 messages old.
inline constexpr std::uint32_t kLongestRest = 1U << 19;

// The writer must use this path now. `last` is the full word of the path's last message.
SENNIT_CHANNEL_FUNCTION inline bool has_rested_too_long(const Word& last,
                                                        const BundleCounts& counts) {
  return static_cast<std::uint32_t>(counts.sequence + 1) - sequence_of(load_acquire(last)) >=
         kLongestRest;
}

}  // namespace sennit::channel
