#include "algo/wiring.hpp"

#include "algo/ranks.hpp"

#include <utility>

namespace sennit::algo {

std::vector<LaneId> lanes_on(Builder& b, const std::vector<int>& ranks, Need need) {
  std::vector<LaneId> lanes;
  for (const int rank : ranks) {
    lanes.push_back(b.lane(rank, need));
  }
  return lanes;
}

std::vector<int> ring_channels(Builder& b, const std::vector<LaneId>& lanes) {
  const int ranks = b.problem().ranks;
  std::vector<int> to_next;
  for (int rank = 0; rank < ranks; ++rank) {
    to_next.push_back(b.channel(at(lanes, rank), at(lanes, wrap(rank + 1, ranks))));
  }
  return to_next;
}

PairChannels pair_channels(Builder& b,
                           const std::vector<LaneId>& writers,
                           const std::vector<LaneId>& readers) {
  PairChannels channels;
  for (const LaneId writer : writers) {
    auto& row = channels.emplace_back();
    for (const LaneId reader : readers) {
      row.push_back(writer.rank == reader.rank ? -1 : b.channel(writer, reader));
    }
  }
  return channels;
}

Step reduce_in_order(const PairChannels& channels, int place, Blocks from, Blocks to) {
  const int ranks = static_cast<int>(channels.size());
  if (ranks == 1) {
    return {.kind = StepKind::kCopy, .from = std::move(from), .to = std::move(to)};
  }
  Step step{.kind = StepKind::kRecvReduce,
            .from = std::move(from),
            .to = std::move(to),
            .order = rank_order(place, ranks)};
  for (const int peer : others(place, ranks)) {
    step.in.push_back(at(at(channels, peer), place));
  }
  return step;
}

}  // namespace sennit::algo
