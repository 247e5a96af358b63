#include "exec/sm/group_order.hpp"

#include <algorithm>

namespace sennit {
namespace {

int lanes_in(const GroupWay& way, int blocks) {
  return way.chains == 0 ? 0 : std::clamp(blocks / way.blocks, 1, way.chains);
}

}  // namespace

GroupOrder group_order(const std::vector<PairEnd>& ends, int rank, int ranks) {
  const auto round_of = [&](std::size_t index) {
    const auto [peer, is_send] = ends[index];
    return ((is_send ? peer - rank : rank - peer) + ranks) % ranks;
  };
  const auto round = [&](const PairChain& chain) { return round_of(chain.front()); };
  GroupOrder order;
  for (std::size_t index = 0; index < ends.size(); ++index) {
    std::vector<PairChain>& chains = ends[index].is_send ? order.sends : order.recvs;
    const auto known = std::ranges::find(chains, round_of(index), round);
    (known != chains.end() ? *known : chains.emplace_back()).push_back(index);
  }
  std::ranges::sort(order.sends, {}, round);
  std::ranges::sort(order.recvs, {}, round);
  return order;
}

int blocks_of_each(int ranks, const GroupRoom& room) {
  return std::max(1, std::min(room.moving, room.all) / ranks - 1);
}

int blocks_of_braid(int ranks, const GroupRoom& room) {
  return std::max(1, std::min({room.moving, room.all / 2, room.all - ranks}));
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
