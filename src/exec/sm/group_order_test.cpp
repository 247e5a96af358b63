#include "exec/sm/group_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <random>
#include <utility>
#include <vector>

namespace sennit {
namespace {

using Group = std::vector<PairEnd>;
using Chains = std::vector<PairChain>;

GroupOrder as_posted(const Group& group) {
  GroupOrder order;
  for (std::size_t index = 0; index < group.size(); ++index) {
    (group[index].is_send ? order.sends : order.recvs).push_back({index});
  }
  return order;
}

// GPUs with so many lanes for each way, each of which runs its chains, one message at a time. A
// message ends when both its ends run and it is the oldest between its two ranks.
class Gpus {
 public:
  template <typename Order, typename Lanes>
  Gpus(const std::vector<Group>& groups, Order order_of, Lanes lanes_of) {
    for (std::size_t rank = 0; rank < groups.size(); ++rank) {
      const GroupOrder order = order_of(groups[rank], static_cast<int>(rank));
      const GroupLanes lanes = lanes_of(rank);
      std::vector<Lane>& rank_lanes = ranks_.emplace_back();
      deal(groups[rank], order.sends, lanes.sends, rank_lanes);
      deal(groups[rank], order.recvs, lanes.recvs, rank_lanes);
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

  static void deal(const Group& group, const Chains& chains, int count, std::vector<Lane>& lanes) {
    const std::size_t first = lanes.size();
    lanes.resize(first + static_cast<std::size_t>(count));
    for (std::size_t chain = 0; chain < chains.size(); ++chain) {
      for (const std::size_t index : chains[chain]) {
        lanes[first + chain % static_cast<std::size_t>(count)].push_back(group[index]);
      }
    }
  }

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

TEST(GroupOrder, GoesByRound) {
  const Group group = {{3, false}, {2, true}, {1, true}, {1, true}, {1, false}, {3, true}};
  // Rank 0 of 4: rounds are 1, 2, 1, 1, 3, 3.
  const GroupOrder order = group_order(group, 0, 4);
  EXPECT_EQ(order.sends, (Chains{{2, 3}, {1}, {5}}));
  EXPECT_EQ(order.recvs, (Chains{{0}, {4}}));
}

// Whatever each rank makes of its blocks.
TEST(GroupOrder, EndsForEveryGroup) {
  std::mt19937 random(11);
  int posted_order_died = 0;
  for (int i = 0; i < 3000; ++i) {
    const int ranks = 2 + i % 7;
    const std::vector<Group> groups = random_groups(ranks, 1 + i % 40, random);
    std::vector<GroupLanes> lanes;
    for (int rank = 0; rank < ranks; ++rank) {
      lanes.push_back({.sends = 1 + static_cast<int>(random() % 2),
                       .recvs = 1 + static_cast<int>(random() % 3)});
    }
    const auto lanes_of = [&](std::size_t rank) { return lanes[rank]; };
    const auto in_order = [&](const Group& group, int rank) {
      return group_order(group, rank, ranks);
    };
    const auto posted = [](const Group& group, int) { return as_posted(group); };
    EXPECT_TRUE(Gpus(groups, in_order, lanes_of).run()) << "group " << i << " of " << ranks;
    posted_order_died += Gpus(groups, posted, lanes_of).run() ? 0 : 1;
  }
  EXPECT_GT(posted_order_died, 0);  // the model distinguishes orders
}

TEST(GroupLanes, HaveHalfOfTheBlocksAndWhatTheOthersLeave) {
  const auto lanes = [](const GroupWay& sends, const GroupWay& recvs) {
    const GroupLanes found = group_lanes(sends, recvs, {.moving = 128, .all = 132});
    return std::pair(found.sends, found.recvs);
  };
  EXPECT_EQ(lanes({3, 64}, {3, 64}), std::pair(1, 1));
  EXPECT_EQ(lanes({3, 32}, {3, 32}), std::pair(2, 2));
  EXPECT_EQ(lanes({3, 32}, {1, 32}), std::pair(3, 1));
  EXPECT_EQ(lanes({1, 32}, {7, 32}), std::pair(1, 3));
  EXPECT_EQ(lanes({5, 64}, {}), std::pair(2, 0));
  EXPECT_EQ(lanes({7, 1}, {7, 1}), std::pair(7, 7));
}

TEST(GroupLanes, ThatOnlyWaitTakeWhatIsLeft) {
  const auto lanes = [](const GroupWay& sends, int recvs, const GroupRoom& room) {
    const GroupLanes found =
        group_lanes(sends, {.chains = recvs, .blocks = 1, .only_waits = true}, room);
    return std::pair(found.sends, found.recvs);
  };
  EXPECT_EQ(lanes({3, 64}, 3, {.moving = 128, .all = 132}), std::pair(2, 3));
  EXPECT_EQ(lanes({7, 64}, 7, {.moving = 128, .all = 132}), std::pair(2, 4));
  EXPECT_EQ(lanes({7, 64}, 7, {.moving = 128, .all = 128}), std::pair(1, 7)) << "one must be left";
  EXPECT_EQ(lanes({7, 4}, 7, {.moving = 8, .all = 132}), std::pair(2, 7)) << "few were allowed";
}

// Every rank with every other and itself, however many blocks a call may have.
TEST(GroupLanes, AllMessagesOfACollectiveRunAtOnceWhereThereIsRoom) {
  for (int ranks = 2; ranks <= 16; ++ranks) {
    for (const int moving : {1, 5, 16, 64, 100, 108, 128}) {
      for (const int all : {moving, 132}) {
        const GroupRoom room{.moving = moving, .all = all};
        const int blocks = blocks_of_each(ranks, room);
        ASSERT_GE(blocks, 1);
        const GroupLanes lanes = group_lanes({.chains = ranks, .blocks = blocks},
                                             {.chains = ranks, .blocks = 1, .only_waits = true},
                                             room);
        if (moving >= 2 * ranks) {
          EXPECT_EQ(lanes.sends, ranks) << ranks << " ranks, " << moving << " blocks";
          EXPECT_EQ(lanes.recvs, ranks) << ranks << " ranks, " << moving << " blocks";
          EXPECT_LE(lanes.sends * blocks + lanes.recvs, moving) << "SMs are left to others";
        }
      }
    }
  }
}

TEST(GroupLanes, ABraidLeavesRoomForAllThatWait) {
  for (int ranks = 3; ranks <= 16; ++ranks) {
    for (const int moving : {1, 5, 16, 64, 128}) {
      const GroupRoom room{.moving = moving, .all = 128};
      const int blocks = blocks_of_braid(ranks, room);
      ASSERT_GE(blocks, 1);
      const GroupLanes lanes = group_lanes({.chains = 1, .blocks = blocks},
                                           {.chains = ranks, .blocks = 1, .only_waits = true},
                                           room);
      EXPECT_EQ(lanes.sends, 1);
      EXPECT_EQ(lanes.recvs, ranks) << ranks << " ranks, " << moving << " blocks";
      EXPECT_LE(blocks + lanes.recvs, room.all);
    }
  }
}

// As many at each end; also where ranks share a GPU, and each has less of it.
TEST(GroupLanes, ABraidLeavesRoomForReceiversOfPackets) {
  for (int ranks = 3; ranks <= 16; ++ranks) {
    for (const int all : {16, 33, 66, 108, 132}) {
      const GroupRoom room{.moving = std::min(all, 128), .all = all};
      const int blocks = blocks_of_braid(ranks, room);
      const GroupLanes lanes =
          group_lanes({.chains = 1, .blocks = blocks}, {.chains = ranks, .blocks = blocks}, room);
      EXPECT_LE((lanes.sends + lanes.recvs) * blocks, all) << ranks << " ranks, " << all;
    }
  }
}

}  // namespace
}  // namespace sennit
