// GroupOrder: in which order the sends and recvs of one group take the SMs of their ranks.
//
// A launch has two lanes of thread blocks or more, each of which runs one message at a time. So
// that no two ranks wait for each other's later messages, all go through their groups in one order:
// by round, which is the distance from sender to receiver around the ranks, the send first.
// Messages from one rank to the same other are a chain, which one lane runs as posted. Chains are
// dealt to the lanes in turn, so that the two of a round are never in one lane.
//
// The first message by round, and by number in its chain, that has not ended has both ends at the
// front of their lanes: what lies before them there has a smaller round or number, so it has ended.
// So it runs, and by induction all do.
#pragma once

#include <cstddef>
#include <vector>

namespace sennit {

struct PairEnd {
  int peer = 0;
  bool is_send = false;
};

// Chains of indices of `ends`, which are those of `rank`, in the order in which they are to start.
std::vector<std::vector<std::size_t>> group_order(const std::vector<PairEnd>& ends,
                                                  int rank,
                                                  int ranks);

}  // namespace sennit
