#include "comm/device/group_order.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace sennit {
namespace {

int lanes_in(const GroupWay& way, int blocks) {
  return way.chains == 0 ? 0 : std::clamp(blocks / way.blocks, 1, way.chains);
}

}  // namespace

GroupOrder group_order(const std::vector<PairEnd>& ends, int rank, int ranks) {
  std::map<int, PairChain> sends;  // by round
  std::map<int, PairChain> recvs;
  for (std::size_t index = 0; index < ends.size(); ++index) {
    const auto [peer, is_send] = ends[index];
    const int distance = is_send ? peer - rank : rank - peer;
    (is_send ? sends : recvs)[(distance + ranks) % ranks].push_back(index);
  }
  const auto in_order = [](std::map<int, PairChain>& rounds) {
    std::vector<PairChain> chains;
    for (auto& [round, chain] : rounds) {
      chains.push_back(std::move(chain));
    }
    return chains;
  };
  return {.sends = in_order(sends), .recvs = in_order(recvs)};
}

int blocks_of_each(int ranks, const GroupRoom& room) {
  return std::max(1, std::min(room.moving, room.all) / ranks - 1);
}

int blocks_of_braid(int ranks, const GroupRoom& room) {
  const int most = room.is_shared ? std::min(room.all / 2, room.all - ranks) : room.all - ranks;
  return std::max(1, std::min(room.moving, most));
}

GroupLanes group_lanes(const GroupWay& sends, const GroupWay& recvs, const GroupRoom& room) {
  GroupLanes lanes;
  if (recvs.only_waits) {
    lanes.sends = lanes_in(sends, std::min(room.moving, room.all - 1));
    lanes.recvs = lanes_in(recvs, room.all - lanes.sends * sends.blocks);
    return lanes;
  }
  // Half for each way, and what one leaves to the other.
  lanes.sends = lanes_in(sends, recvs.chains == 0 ? room.moving : room.moving / 2);
  lanes.recvs = lanes_in(recvs, room.moving - lanes.sends * sends.blocks);
  lanes.sends = lanes_in(sends, room.moving - lanes.recvs * recvs.blocks);
  return lanes;
}

}  // namespace sennit
