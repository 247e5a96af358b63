#include "algo/groups.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace sennit::algo {
namespace {

using GroupList = std::vector<std::vector<int>>;

GroupList lists_of(const Groups& groups) {
  GroupList lists;
  for (int group = 0; group < groups.count(); ++group) {
    lists.push_back(groups.members(group));
  }
  return lists;
}

TEST(Groups, WithoutAnyAreBalancedAndInOrder) {
  EXPECT_EQ(lists_of(Groups({.ranks = 1})), (GroupList{{0}}));
  EXPECT_EQ(lists_of(Groups({.ranks = 3})), (GroupList{{0, 1, 2}}));
  EXPECT_EQ(lists_of(Groups({.ranks = 5})), (GroupList{{0, 1, 2}, {3, 4}}));
  EXPECT_EQ(lists_of(Groups({.ranks = 8})), (GroupList{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(Groups({.ranks = 64}).count(), 8);
}

TEST(Groups, AreThoseOfTheShape) {
  const Shape shape{.ranks = 5, .groups = {{4, 0}, {1, 3, 2}}};
  const Groups groups(shape);
  EXPECT_EQ(lists_of(groups), shape.groups);
  EXPECT_EQ(groups.group_of(3), 1);
  EXPECT_EQ(groups.place_of(3), 1);
  EXPECT_EQ(groups.other_members(3), (std::vector{2, 1}));
  EXPECT_EQ(groups.largest(), 3);
  EXPECT_EQ(groups.count_of_many(), 2);
}

TEST(Groups, ACounterpartHasTheSamePlaceCountedRound) {
  const Groups groups({.ranks = 7, .groups = {{0, 1}, {2, 3, 4}, {5}, {6}}});
  EXPECT_EQ(groups.counterpart(3, 0), 1);
  EXPECT_EQ(groups.counterpart(4, 0), 0);
  EXPECT_EQ(groups.counterpart(4, 2), 5);
  EXPECT_EQ(groups.counterpart(1, 1), 3);
}

TEST(Groups, NumbersBelowCountsPlaces) {
  for (int size = 1; size < 6; ++size) {
    for (int place = 0; place < size; ++place) {
      for (int end = 0; end < 14; ++end) {
        int count = 0;
        for (int number = place; number < end; number += size) {
          ++count;
        }
        EXPECT_EQ(numbers_below(end, place, size), count);
      }
    }
  }
}

}  // namespace
}  // namespace sennit::algo
