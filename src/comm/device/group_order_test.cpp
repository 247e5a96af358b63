#include "comm/device/group_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace sennit {
namespace {

using Group = std::vector<PairEnd>;

std::vector<std::size_t> as_posted(const Group& group) {
  std::vector<std::size_t> order(group.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

// GPUs on which two messages run at a time: those that started first and have not ended. A message
// ends when both its ends run and it is the oldest between its two ranks.
class Gpus {
 public:
  template <typename Order>
  Gpus(const std::vector<Group>& groups, Order order_of) : ranks_(static_cast<int>(groups.size())) {
    for (int rank = 0; rank < ranks_; ++rank) {
      const Group& group = groups[static_cast<std::size_t>(rank)];
      Group ordered;
      for (const std::size_t index : order_of(group, rank)) {
        ordered.push_back(group[index]);
      }
      waiting_.push_back(std::move(ordered));
    }
  }

  // True when all messages end.
  bool run() {
    while (step()) {
    }
    return std::ranges::all_of(waiting_, [](const Group& group) { return group.empty(); });
  }

 private:
  static constexpr std::size_t kAtOnce = 2;

  Group::iterator running(int rank, int peer, bool is_send) {
    Group& group = waiting_[static_cast<std::size_t>(rank)];
    const auto end = group.begin() + static_cast<std::ptrdiff_t>(std::min(kAtOnce, group.size()));
    const auto found = std::find_if(group.begin(), end, [&](const PairEnd& at) {
      return at.peer == peer && at.is_send == is_send;
    });
    return found == end ? group.end() : found;
  }

  bool step() {
    for (int from = 0; from < ranks_; ++from) {
      for (int to = 0; to < ranks_; ++to) {
        const auto send = running(from, to, true);
        const auto recv = running(to, from, false);
        Group& sender = waiting_[static_cast<std::size_t>(from)];
        Group& receiver = waiting_[static_cast<std::size_t>(to)];
        if (send != sender.end() && recv != receiver.end()) {
          sender.erase(send);
          receiver.erase(recv);
          return true;
        }
      }
    }
    return false;
  }

  int ranks_;
  std::vector<Group> waiting_;
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

TEST(GroupOrder, GoesByRoundThenByNumberWithTheSendFirst) {
  const Group group = {{3, false}, {2, true}, {1, true}, {1, true}, {1, false}, {3, true}};
  // Rank 0 of 4: rounds are 1, 2, 1, 1, 3, 3.
  EXPECT_EQ(group_order(group, 0, 4), (std::vector<std::size_t>{2, 0, 3, 1, 5, 4}));
}

TEST(GroupOrder, EndsForEveryGroup) {
  std::mt19937 random(11);
  int posted_order_died = 0;
  for (int i = 0; i < 2000; ++i) {
    const int ranks = 2 + i % 7;
    const std::vector<Group> groups = random_groups(ranks, 1 + i % 40, random);
    EXPECT_TRUE(
        Gpus(groups, [&](const Group& group, int rank) { return group_order(group, rank, ranks); })
            .run())
        << "group " << i << " of " << ranks << " ranks";
    posted_order_died +=
        Gpus(groups, [](const Group& group, int) { return as_posted(group); }).run() ? 0 : 1;
  }
  EXPECT_GT(posted_order_died, 0);  // the model tells orders apart
}

}  // namespace
}  // namespace sennit
