// GroupOrder: in which order the sends and recvs of one group take the SMs of their ranks.
//
// Thread blocks start in the order of their index, and a block that waits keeps its SM. Two
// messages that run at once, one each way, may fill a GPU; whatever else is in the group starts as
// they end. So that no two ranks wait for each other's later messages, all go through their groups
// in one order: by round, which is the distance from sender to receiver around the ranks; within a
// round by the number of the message between these two ranks; the send first.
//
// The first message in this order that has not ended has both ends at the front of their groups:
// all before it have ended. So it runs, and by induction all do.
#pragma once

#include <cstddef>
#include <vector>

namespace sennit {

struct PairEnd {
  int peer = 0;
  bool is_send = false;
};

// Indices of `ends`, which are those of `rank`, in the order in which they are to start.
std::vector<std::size_t> group_order(const std::vector<PairEnd>& ends, int rank, int ranks);

}  // namespace sennit
