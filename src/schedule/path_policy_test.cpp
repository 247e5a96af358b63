#include "schedule/path_policy.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace sennit {
namespace {

using Views = std::vector<PathView>;

TEST(PathPolicy, LeastLoadedTakesTheShorterQueue) {
  EXPECT_EQ(pick({}, {}, Views{{}, {}}), 0);
  EXPECT_EQ(pick({}, {}, Views{{.under_way = 1}, {}}), 1);
  EXPECT_EQ(pick({}, {}, Views{{.under_way = 1}, {.under_way = 2}}), 0);
}

TEST(PathPolicy, LeastLoadedTakesTheLongerQueueOfAFasterPath) {
  EXPECT_EQ(pick({}, {}, Views{{.under_way = 1, .taken = 2}, {.under_way = 3, .taken = 12}}), 1);
  EXPECT_EQ(pick({}, {}, Views{{.under_way = 1, .taken = 2}, {.under_way = 9, .taken = 12}}), 0);
}

TEST(PathPolicy, LeastLoadedPassesOverAFullPath) {
  EXPECT_EQ(pick({}, {}, Views{{.free = false}, {.under_way = 7}}), 1);
  EXPECT_EQ(pick({}, {}, Views{{}, {.free = false}}), 0);
  EXPECT_EQ(pick({}, {}, Views{{.free = false}, {.free = false}}), 0);
}

TEST(PathPolicy, FixedAndRoundRobinLookAtNothing) {
  const Views full{{.free = false, .under_way = 9}, {}, {}};
  const PathPolicy fixed{.rule = PathRule::kFixed, .path = 0};
  EXPECT_EQ(pick(fixed, {.number = 5}, full), 0);
  const PathPolicy round{.rule = PathRule::kRoundRobin};
  for (std::uint64_t number = 0; number < 9; ++number) {
    EXPECT_EQ(pick(round, {.number = number}, full), static_cast<int>(number % 3));
  }
}

TEST(PathPolicy, RandomDependsOnSeedChannelAndNumberAlone) {
  const Views views(2);
  std::array<int, 2> seen{};
  std::array<int, 2> differs{};  // from another seed, from another channel
  const PathPolicy policy{.rule = PathRule::kRandom, .seed = 1};
  const PathPolicy other{.rule = PathRule::kRandom, .seed = 2};
  for (std::uint64_t number = 0; number < 1000; ++number) {
    const int path = pick(policy, {.number = number}, views);
    EXPECT_EQ(pick(policy, {.number = number}, Views{{.free = false}, {}}), path);
    ++seen[static_cast<std::size_t>(path)];
    differs[0] += pick(other, {.number = number}, views) != path ? 1 : 0;
    differs[1] += pick(policy, {.number = number, .channel = 1}, views) != path ? 1 : 0;
  }
  for (const int count : {seen[0], seen[1], differs[0], differs[1]}) {
    EXPECT_GT(count, 400);
  }
}

TEST(PathPolicy, IsReadFromText) {
  EXPECT_EQ(*parse_path_policy("least_loaded"), PathPolicy{});
  EXPECT_EQ(*parse_path_policy("round_robin"), PathPolicy{.rule = PathRule::kRoundRobin});
  EXPECT_EQ(*parse_path_policy("random"), PathPolicy{.rule = PathRule::kRandom});
  EXPECT_EQ(*parse_path_policy("random:7"), (PathPolicy{.rule = PathRule::kRandom, .seed = 7}));
  EXPECT_EQ(*parse_path_policy("fixed:1"), (PathPolicy{.rule = PathRule::kFixed, .path = 1}));
  for (const std::string_view wrong : {"",
                                       "best",
                                       "fixed",
                                       "fixed:",
                                       "fixed:4",
                                       "fixed:x",
                                       "random:-1",
                                       "random:7x",
                                       "least_loaded:1",
                                       "round_robin:"}) {
    EXPECT_EQ(parse_path_policy(wrong).status().code(), Code::kInvalidArgument) << wrong;
  }
}

}  // namespace
}  // namespace sennit
