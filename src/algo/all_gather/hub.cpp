#include "algo/all_gather/all_gather.hpp"
#include "algo/ranks.hpp"

namespace sennit::algo::all_gather {
namespace {

// Each rank writes its block once, into a channel that all others read. Readers begin at their
// successor, so that they do not all come to one channel at a time. The slowest reader holds the
// writer up; four slots or more leave it some way ahead.
Schedule build(const Shape& shape) {
  const int n = shape.ranks;
  Builder b("hub", {.collective = Collective::kAllGather, .ranks = n});
  copy_own_blocks(b);
  if (n == 1) {
    return std::move(b).finish();
  }
  const auto writers = b.lane_on_every_rank(Need::kMove);
  const auto readers = b.lane_on_every_rank(Need::kMove);
  std::vector<int> hubs;  // by source
  for (int rank = 0; rank < n; ++rank) {
    std::vector<LaneId> audience;
    for (const int peer : others(rank, n)) {
      audience.push_back(at(readers, peer));
    }
    hubs.push_back(b.hub(at(writers, rank), std::move(audience)));
    b.send(at(writers, rank), {input_block(0)}, hubs.back());
  }
  for (int rank = 0; rank < n; ++rank) {
    for (const int source : successors(rank, n)) {
      b.recv(at(readers, rank), at(hubs, source), {output_block(source)});
    }
  }
  return std::move(b).finish();
}

std::int64_t blocks_on_link(const Shape&, int from, int to) {
  return one_block_each_pair(from, to);
}

std::int64_t rounds(const Shape& shape) { return shape.ranks == 1 ? 0 : 1; }

}  // namespace

Algorithm hub() {
  return {.collective = Collective::kAllGather,
          .name = "hub",
          .summary = "each rank writes its block once, where all others read it",
          .source = "textbook: shared buffer with one writer and many readers",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true};
}

}  // namespace sennit::algo::all_gather
