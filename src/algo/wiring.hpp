// The channels and the reduction step that several algorithms share.
#pragma once

#include "schedule/builder.hpp"

#include <vector>

namespace sennit::algo {

// A lane on each of `ranks`.
std::vector<LaneId> lanes_on(Builder& b, const std::vector<int>& ranks, Need need);

// Channel i leads from rank i to its successor; `lanes` holds one lane a rank, at least two.
std::vector<int> ring_channels(Builder& b, const std::vector<LaneId>& lanes);

// A channel from each rank's lane in `writers` to each other rank's lane in `readers`, two lists of
// the same ranks: [writer][reader], by place in the lists, -1 where both are one rank.
using PairChannels = std::vector<std::vector<int>>;
PairChannels pair_channels(Builder& b,
                           const std::vector<LaneId>& writers,
                           const std::vector<LaneId>& readers);

// The step of the rank at `place` that reduces its own blocks `from` with one message of each other
// rank, in the order of their places, into `to`. A lone rank has nothing to receive: its step is a
// copy.
Step reduce_in_order(const PairChannels& channels, int place, Blocks from, Blocks to);

}  // namespace sennit::algo
