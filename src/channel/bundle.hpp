// Bundle: one channel over several rings, one a path, for both host and device.
//
// Message s of the bundle lies on one of the paths, at that path's next position. Full and free
// words hold positions, as those of a single ring do; a tag next to the slot holds s. The reader of
// message s watches the next slot of every path and takes the one whose tag says s: both ends count
// alike, so there is nothing to agree on and no way back. Each path is in order by itself, so no
// other message can hide the one that is next.
//
//   writer:  p = a path with may_write(ring[p].free, counts.position[p], slots)
//            ... fill the slot; tag = counts.sequence ...
//            publish(ring[p].full, counts.position[p], fp)    partner: is_full
//            pass(counts, p)
//   reader:  p = the path with is_full(ring[p].full, counts.position[p], fp)
//                              and tag == counts.sequence
//            ... use the slot ...
//            release_slot(ring[p].free, counts.position[p])   partner: may_write
//            pass(counts, p)
//
// A call begins with the sum of its rings' positions as sequence number: both ends know it.
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

}  // namespace sennit::channel
