#include "algo/wiring.hpp"

#include "algo/ranks.hpp"

namespace sennit::algo {

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

Step reduce_in_rank_order(const PairChannels& channels,
                          int rank,
                          const Block& from,
                          const Block& to) {
  const int ranks = static_cast<int>(channels.size());
  if (ranks == 1) {
    return {.kind = StepKind::kCopy, .from = {from}, .to = {to}};
  }
  Step step{
      .kind = StepKind::kRecvReduce, .from = {from}, .to = {to}, .order = rank_order(rank, ranks)};
  for (const int peer : others(rank, ranks)) {
    step.in.push_back(at(at(channels, peer), rank));
  }
  return step;
}

}  // namespace sennit::algo
