#include "algo/barrier/barrier.hpp"
#include "algo/ranks.hpp"
#include "schedule/builder.hpp"

namespace sennit::algo::barrier {
namespace {

// In round k every rank signals its 2^k-th successor that it and the 2^k - 1 before it have
// arrived.
Schedule build(const Shape& shape) {
  const int n = shape.ranks;
  Builder b("dissemination", {.collective = Collective::kBarrier, .ranks = n});
  const auto lanes = b.lane_on_every_rank(Need::kMove);
  for (int distance = 1; distance < n; distance *= 2) {
    std::vector<int> channels;  // by sender
    for (int rank = 0; rank < n; ++rank) {
      channels.push_back(b.channel(at(lanes, rank), at(lanes, wrap(rank + distance, n))));
      b.token(at(lanes, rank), {}, {channels.back()});
    }
    for (int rank = 0; rank < n; ++rank) {
      b.token(at(lanes, rank), {at(channels, wrap(rank - distance, n))}, {});
    }
  }
  return std::move(b).finish();
}

// Tokens carry no blocks.
std::int64_t blocks_on_link(const Shape&, int, int) { return 0; }

std::int64_t rounds(const Shape& shape) { return ceil_log2(shape.ranks); }

}  // namespace

Algorithm dissemination() {
  return {.collective = Collective::kBarrier,
          .name = "dissemination",
          .summary = "in round k, a token to the 2^k-th successor",
          .source = "Hensgen, Finkel and Manber 1988",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true};
}

}  // namespace sennit::algo::barrier
