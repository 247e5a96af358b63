// What host ranks choose where groups are nodes.
#include "select/select.hpp"

#include <gtest/gtest.h>

namespace sennit {
namespace {

std::string_view chosen_for(Collective collective, std::int64_t bytes, const Shape& shape) {
  const Result<Choice> choice = choose(collective, shape, bytes, {}, HostFacts());
  return choice.ok() ? choice->algorithm->name : choice.status().message();
}

TEST(NodeChoice, LetsEveryCardCarryItsShareOnce) {
  const Shape one{.ranks = 4};
  const Shape two{.ranks = 4, .groups = {{0, 1}, {2, 3}}};
  constexpr std::int64_t kLarge = 1 << 20;
  EXPECT_EQ(chosen_for(Collective::kAllGather, kLarge, two), "multi_rail");
  EXPECT_EQ(chosen_for(Collective::kAllReduce, kLarge, two), "hierarchical_sliced");
  const Shape three{.ranks = 6, .groups = {{0, 1}, {2, 3}, {4, 5}}};
  EXPECT_EQ(chosen_for(Collective::kAllReduce, kLarge, three), "hierarchical_shares");
  EXPECT_EQ(chosen_for(Collective::kAllGather, kLarge, one), "direct");
  EXPECT_EQ(chosen_for(Collective::kAllReduce, kLarge, one), "two_shot");
  EXPECT_EQ(chosen_for(Collective::kBroadcast, kLarge, two), "multi_rail");
  for (const Collective collective : {Collective::kAllToAll, Collective::kReduceScatter}) {
    EXPECT_EQ(chosen_for(collective, kLarge, two), chosen_for(collective, kLarge, one))
        << name(collective);
  }
}

TEST(NodeChoice, ReducesInRankOrderAllTheSame) {
  const Shape two{.ranks = 4, .groups = {{0, 1}, {2, 3}}};
  CallRequest request;
  request.rank_order = true;
  const auto choice = choose(Collective::kAllReduce, two, 1 << 20, request, HostFacts());
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->algorithm->name, "two_shot");
}

}  // namespace
}  // namespace sennit
