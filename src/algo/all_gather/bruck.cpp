#include "algo/all_gather/all_gather.hpp"
#include "algo/ranks.hpp"

#include <algorithm>
#include <bit>

namespace sennit::algo::all_gather {
namespace {

// In round d = 1, 2, 4, ... a rank holds the blocks of itself and its d - 1 successors, and sends
// them to its d-th predecessor; in the last round, those that are still missing there. Blocks are
// stored by name, so nothing has to be rotated in the end.
Schedule build(const Shape& shape) {
  const int n = shape.ranks;
  Builder b("bruck", {.collective = Collective::kAllGather, .ranks = n});
  copy_own_blocks(b);
  if (n == 1) {
    return std::move(b).finish();
  }
  const auto lanes = b.lane_on_every_rank(Need::kMove);
  for (int distance = 1; distance < n; distance *= 2) {
    const int count = std::min(distance, n - distance);
    std::vector<int> channels;  // by sender
    for (int rank = 0; rank < n; ++rank) {
      Blocks held{input_block(0)};
      for (int i = 1; i < count; ++i) {
        held.push_back(output_block(wrap(rank + i, n)));
      }
      channels.push_back(b.channel(at(lanes, rank), at(lanes, wrap(rank - distance, n))));
      b.send(at(lanes, rank), std::move(held), channels.back());
    }
    for (int rank = 0; rank < n; ++rank) {
      const int peer = wrap(rank + distance, n);
      Blocks missing;
      for (int i = 0; i < count; ++i) {
        missing.push_back(output_block(wrap(peer + i, n)));
      }
      b.recv(at(lanes, rank), at(channels, peer), std::move(missing));
    }
  }
  return std::move(b).finish();
}

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  const int distance = wrap(from - to, shape.ranks);
  return std::has_single_bit(static_cast<unsigned>(distance))
             ? std::min(distance, shape.ranks - distance)
             : 0;
}

std::int64_t rounds(const Shape& shape) { return ceil_log2(shape.ranks); }

}  // namespace

Algorithm bruck() {
  return {.collective = Collective::kAllGather,
          .name = "bruck",
          .summary = "to the predecessor at distance 1, 2, 4, ... all blocks held: fewest rounds",
          .source = "Bruck et al. 1997",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true};
}

}  // namespace sennit::algo::all_gather
