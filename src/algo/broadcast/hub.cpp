#include "algo/broadcast/broadcast.hpp"
#include "algo/ranks.hpp"

#include <algorithm>

namespace sennit::algo::broadcast {
namespace {

// The root writes the vector once, into a channel that all others read. It is cut as
// scatter_forward cuts it, so that the two may carry parts of the same blocks.
Schedule build(const Shape& shape) {
  const int n = shape.ranks;
  Builder b("hub",
            {.collective = Collective::kBroadcast,
             .ranks = n,
             .root = shape.root,
             .cut = std::max(1, n - 1)});
  copy_at_root(b);
  if (n == 1) {
    return std::move(b).finish();
  }
  const LaneId writer = b.lane(shape.root, Need::kMove);
  std::vector<LaneId> audience;
  for (const int peer : successors(shape.root, n)) {
    audience.push_back(b.lane(peer, Need::kMove));
  }
  const int hub = b.hub(writer, audience);
  for (int slice = 0; slice < n - 1; ++slice) {
    b.send(writer, {input_block(slice)}, hub);
    for (const LaneId& reader : audience) {
      b.recv(reader, hub, {output_block(slice)});
    }
  }
  return std::move(b).finish();
}

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  return from == shape.root && to != shape.root ? shape.ranks - 1 : 0;
}

std::int64_t rounds(const Shape& shape) { return shape.ranks == 1 ? 0 : 1; }

}  // namespace

Algorithm hub() {
  return {.collective = Collective::kBroadcast,
          .name = "hub",
          .summary = "the root writes the vector once, slice by slice, where all others read it",
          .source = "textbook: shared buffer with one writer and many readers",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true};
}

}  // namespace sennit::algo::broadcast
