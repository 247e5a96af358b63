// The channels and the reduction step that several algorithms share.
#pragma once

#include "schedule/builder.hpp"

#include <vector>

namespace sennit::algo {

// Channel i leads from rank i to its successor; `lanes` holds one lane a rank, at least two.
std::vector<int> ring_channels(Builder& b, const std::vector<LaneId>& lanes);

// A channel from each rank's lane in `writers` to each other rank's lane in `readers`:
// [writer][reader], -1 where both are one rank.
using PairChannels = std::vector<std::vector<int>>;
PairChannels pair_channels(Builder& b,
                           const std::vector<LaneId>& writers,
                           const std::vector<LaneId>& readers);

// The step of `rank` that reduces its own block `from` with one message of each other rank, in rank
// order, into `to`. A lone rank has nothing to receive: its step is a copy.
Step reduce_in_rank_order(const PairChannels& channels,
                          int rank,
                          const Block& from,
                          const Block& to);

}  // namespace sennit::algo
