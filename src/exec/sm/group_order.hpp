// GroupOrder: in which order the sends and recvs of one group take the SMs of their ranks.
//
// A launch has lanes of thread blocks for what is sent and others for what is received; each runs
// one message at a time. So that no two ranks wait for each other's later messages, all go through
// their groups in one order: by round, which is the distance from sender to receiver around the
// ranks. Messages from one rank to the same other are a chain, which one lane runs as posted.
// Chains of one way are dealt to its lanes in turn.
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

using PairChain = std::vector<std::size_t>;  // indices of ends

// Those of a rank, in the order in which they are to start.
struct GroupOrder {
  std::vector<PairChain> sends;
  std::vector<PairChain> recvs;
};
GroupOrder group_order(const std::vector<PairEnd>& ends, int rank, int ranks);

// What a group has of one way.
struct GroupWay {
  int chains = 0;
  int blocks = 1;           // of a lane
  bool only_waits = false;  // its blocks move nothing
};

// Thread blocks that all lanes together may have: that move something, and in all.
struct GroupRoom {
  int moving = 0;
  int all = 0;
};

// Thread blocks of each message, the same on all ranks, where each rank has one to and one from
// every other and itself: so that all run at once where their receivers wait, those that are sent
// side by side, or (braid) by the same blocks. These leave half of the room to receivers, which
// take as many where they get packets.
int blocks_of_each(int ranks, const GroupRoom& room);
int blocks_of_braid(int ranks, const GroupRoom& room);

// How many lanes each way gets: one at least, where it has anything, and no more than it has
// chains.
struct GroupLanes {
  int sends = 0;
  int recvs = 0;
};
GroupLanes group_lanes(const GroupWay& sends, const GroupWay& recvs, const GroupRoom& room);

}  // namespace sennit
