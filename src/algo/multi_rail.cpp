#include "algo/multi_rail.hpp"

#include "algo/ranks.hpp"
#include "algo/wiring.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace sennit::algo {
namespace {

class Exchange {
 public:
  Exchange(Builder& b, const Groups& groups, const RailBlocks& blocks)
      : b_(b), groups_(groups), blocks_(blocks) {}

  void add() {
    if (groups_.count() > 1) {
      send_by_rail();
    }
    for (int node = 0; node < groups_.count(); ++node) {
      const std::vector<int>& members = groups_.members(node);
      // A rank alone in its node neither gives nor takes there.
      const std::vector<int> peers = members.size() == 1 ? std::vector<int>{} : members;
      const auto arrivals = lanes_on(b_, peers, Need::kMove);
      exchange_within(peers, arrivals);
      if (groups_.count() > 1) {
        hand_on(node, arrivals);
      }
    }
  }

 private:
  void send_by_rail() {
    const auto rails = b_.lane_on_every_rank(Need::kMove);
    docks_ = b_.lane_on_every_rank(Need::kMove);
    for (const LaneId rail : rails) {
      auto& row = rails_.emplace_back(rails.size(), -1);
      for (const int node : successors(groups_.group_of(rail.rank), groups_.count())) {
        const int peer = groups_.counterpart(rail.rank, node);
        const int channel = b_.channel(rail, at(docks_, peer));
        b_.send(rail, blocks_.for_node(node), channel);
        row[static_cast<std::size_t>(peer)] = channel;
      }
    }
  }

  void exchange_within(const std::vector<int>& members, const std::vector<LaneId>& arrivals) {
    const int size = static_cast<int>(members.size());
    const auto sends = lanes_on(b_, members, Need::kMove);
    const auto channels = pair_channels(b_, sends, arrivals);
    for (int place = 0; place < size; ++place) {
      for (const int peer : successors(place, size)) {
        const Block block = blocks_.for_member(at(members, peer));
        b_.send(at(sends, place), {block}, at(at(channels, place), peer));
      }
      for (const int peer : predecessors(place, size)) {
        const Block block = output_block(at(members, peer));
        b_.recv(at(arrivals, place), at(at(channels, peer), place), {block});
      }
    }
  }

  // A node while it hands on; everything by place.
  struct Node {
    const std::vector<int>& members;
    std::vector<LaneId> arrivals;  // empty where a rank is alone
    PairChannels channels;         // from docks to arrivals
    std::vector<int> docked;       // messages so far
  };

  void hand_on(int number, const std::vector<LaneId>& arrivals) {
    const std::vector<int>& members = groups_.members(number);
    std::vector<LaneId> docks;
    for (const int member : members) {
      docks.push_back(at(docks_, member));
    }
    Node node{.members = members,
              .arrivals = arrivals,
              .channels = pair_channels(b_, docks, arrivals),
              .docked = std::vector<int>(members.size(), 0)};
    for (const int other : predecessors(number, groups_.count())) {
      // The ranks of a larger node come in several turns, one to a member in each.
      std::span<const int> sources = groups_.members(other);
      while (!sources.empty()) {
        const auto turn = sources.first(std::min(sources.size(), members.size()));
        take_turn(node, turn);
        sources = sources.subspan(turn.size());
      }
    }
  }

  // All members take in the order of the turns: if one took all of one peer's messages before
  // another's, peers with few slots could wait for each other in a circle.
  void take_turn(Node& node, std::span<const int> sources) {
    const int size = static_cast<int>(node.members.size());
    for (std::size_t place = 0; place < sources.size(); ++place) {
      dock({node.members[place], sources[place], node.docked[place]++}, node.channels[place]);
    }
    for (int place = 0; place < size; ++place) {
      for (const int peer : predecessors(place, size)) {
        if (std::cmp_less(peer, sources.size())) {
          const Block block = output_block(sources[static_cast<std::size_t>(peer)]);
          b_.recv(at(node.arrivals, place), at(at(node.channels, peer), place), {block});
        }
      }
    }
  }

  // `channels` lead to the members of the node, by place.
  void dock(const RailMessage& message, const std::vector<int>& channels) {
    const LaneId lane = at(docks_, message.at);
    b_.recv(lane, at(at(rails_, message.source), message.at), blocks_.landing(message));
    for (const int peer : groups_.other_members(message.at)) {
      b_.send(lane, {blocks_.handed(message, peer)}, at(channels, groups_.place_of(peer)));
    }
  }

  Builder& b_;
  const Groups& groups_;
  const RailBlocks& blocks_;
  std::vector<LaneId> docks_;  // by rank: takes from the rail and hands on
  PairChannels rails_;         // by ranks, -1 where there is no rail
};

}  // namespace

void add_multi_rail_exchange(Builder& b, const Groups& groups, const RailBlocks& blocks) {
  Exchange(b, groups, blocks).add();
}

std::int64_t multi_rail_blocks_within(const Groups& groups, int from) {
  const int own = groups.group_of(from);
  std::int64_t blocks = 1;
  for (int group = 0; group < groups.count(); ++group) {
    blocks += group == own
                  ? 0
                  : numbers_below(groups.size(group), groups.place_of(from), groups.size(own));
  }
  return blocks;
}

std::int64_t multi_rail_rounds(const Shape& shape) {
  const Groups groups(shape);
  return (groups.count() > 1 ? 1 : 0) + (groups.count_of_many() > 0 ? 1 : 0);
}

}  // namespace sennit::algo
