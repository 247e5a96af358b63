#include "comm/device/group_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <random>
#include <vector>

namespace sennit {
namespace {

using Group = std::vector<PairEnd>;
using Chains = std::vector<std::vector<std::size_t>>;

Chains as_posted(const Group& group) {
  Chains chains;
  for (std::size_t index = 0; index < group.size(); ++index) {
    chains.push_back({index});
  }
  return chains;
}

// GPUs with so many lanes, each of which runs its chains, one message at a time. A message ends
// when both its ends run and it is the oldest between its two ranks.
class Gpus {
 public:
  template <typename Order>
  Gpus(const std::vector<Group>& groups, std::size_t lanes, Order order_of) {
    for (std::size_t rank = 0; rank < groups.size(); ++rank) {
      std::vector<Lane> rank_lanes(lanes);
      const Chains chains = order_of(groups[rank], static_cast<int>(rank));
      for (std::size_t chain = 0; chain < chains.size(); ++chain) {
        for (const std::size_t index : chains[chain]) {
          rank_lanes[chain % lanes].push_back(groups[rank][index]);
        }
      }
      ranks_.push_back(std::move(rank_lanes));
    }
  }

  // True when all messages end.
  bool run() {
    while (step()) {
    }
    return std::ranges::all_of(ranks_, [](const std::vector<Lane>& lanes) {
      return std::ranges::all_of(lanes, [](const Lane& lane) { return lane.empty(); });
    });
  }

 private:
  using Lane = std::deque<PairEnd>;

  // The lane that runs a message from or to `peer`; null: none.
  Lane* running(int rank, int peer, bool is_send) {
    for (Lane& lane : ranks_[static_cast<std::size_t>(rank)]) {
      if (!lane.empty() && lane.front().peer == peer && lane.front().is_send == is_send) {
        return &lane;
      }
    }
    return nullptr;
  }

  bool step() {
    const int ranks = static_cast<int>(ranks_.size());
    for (int from = 0; from < ranks; ++from) {
      for (int to = 0; to < ranks; ++to) {
        Lane* const send = running(from, to, true);
        Lane* const recv = running(to, from, false);
        if (send != nullptr && recv != nullptr) {
          send->pop_front();
          recv->pop_front();
          return true;
        }
      }
    }
    return false;
  }

  std::vector<std::vector<Lane>> ranks_;
};

// The same messages on all ranks, posted in an order of each rank's own; messages between two ranks
// keep theirs, as there is only one kind.
std::vector<Group> random_groups(int ranks, int messages, std::mt19937& random) {
  std::vector<Group> groups(static_cast<std::size_t>(ranks));
  for (int i = 0; i < messages; ++i) {
    const int from = static_cast<int>(random() % static_cast<unsigned>(ranks));
    const int to =
        (from + 1 + static_cast<int>(random() % static_cast<unsigned>(ranks - 1))) % ranks;
    groups[static_cast<std::size_t>(from)].push_back({to, true});
    groups[static_cast<std::size_t>(to)].push_back({from, false});
  }
  for (Group& group : groups) {
    std::ranges::shuffle(group, random);
  }
  return groups;
}

TEST(GroupOrder, GoesByRoundWithTheSendFirst) {
  const Group group = {{3, false}, {2, true}, {1, true}, {1, true}, {1, false}, {3, true}};
  // Rank 0 of 4: rounds are 1, 2, 1, 1, 3, 3.
  EXPECT_EQ(group_order(group, 0, 4), (Chains{{2, 3}, {0}, {1}, {5}, {4}}));
}

TEST(GroupOrder, EndsForEveryGroup) {
  std::mt19937 random(11);
  int posted_order_died = 0;
  for (int i = 0; i < 3000; ++i) {
    const int ranks = 2 + i % 7;
    const std::size_t lanes = 2 + static_cast<std::size_t>(i) % 3;
    const std::vector<Group> groups = random_groups(ranks, 1 + i % 40, random);
    EXPECT_TRUE(Gpus(groups,
                     lanes,
                     [&](const Group& group, int rank) { return group_order(group, rank, ranks); })
                    .run())
        << "group " << i << " of " << ranks << " ranks, " << lanes << " lanes";
    posted_order_died +=
        Gpus(groups, lanes, [](const Group& group, int) { return as_posted(group); }).run() ? 0 : 1;
  }
  EXPECT_GT(posted_order_died, 0);  // the model tells orders apart
}

}  // namespace
}  // namespace sennit
