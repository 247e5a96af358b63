#include "algo/broadcast/broadcast.hpp"
#include "algo/ranks.hpp"
#include "algo/wiring.hpp"

#include <algorithm>

namespace sennit::algo::broadcast {
namespace {

// The vector is cut into as many slices as there are receivers; slice v - 1 goes to the root's v-th
// successor, which passes it on to all other receivers. One lane of a receiver takes its slice and
// forwards it, another one takes those of the others.
Schedule build(const Shape& shape) {
  const int n = shape.ranks;
  Builder b("scatter_forward",
            {.collective = Collective::kBroadcast,
             .ranks = n,
             .root = shape.root,
             .cut = std::max(1, n - 1)});
  copy_at_root(b);
  const std::vector<int> receivers = successors(shape.root, n);
  const auto slices = lanes_on(b, receivers, Need::kMove);
  const auto rests = lanes_on(b, n > 2 ? receivers : std::vector<int>{}, Need::kMove);
  const auto channels = pair_channels(b, slices, rests);
  for (int slice = 0; slice < n - 1; ++slice) {
    const LaneId sender = b.lane(shape.root, Need::kMove);
    const int channel = b.channel(sender, at(slices, slice));
    b.send(sender, {input_block(slice)}, channel);
    b.recv(at(slices, slice), channel, {output_block(slice)});
    for (const int peer : successors(slice, n - 1)) {
      b.send(at(slices, slice), {output_block(slice)}, at(at(channels, slice), peer));
    }
    for (const int peer : predecessors(slice, n - 1)) {
      b.recv(at(rests, slice), at(at(channels, peer), slice), {output_block(peer)});
    }
  }
  return std::move(b).finish();
}

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  return from != to && to != shape.root ? 1 : 0;
}

std::int64_t rounds(const Shape& shape) { return std::min(shape.ranks - 1, 2); }

}  // namespace

Algorithm scatter_forward() {
  return {.collective = Collective::kBroadcast,
          .name = "scatter_forward",
          .summary =
              "in two hops: the root scatters slices, and each rank forwards its slice to all "
              "others",
          .source = "textbook: scatter, then direct all-gather",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true};
}

}  // namespace sennit::algo::broadcast
