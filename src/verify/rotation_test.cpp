#include "rotation.hpp"

#include "algo/algorithm.hpp"
#include "verify/verify.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string_view>

namespace sennit {
namespace {

Schedule made(Collective collective, std::string_view name, int ranks, int root) {
  return make_schedule(*find_algorithm(collective, name).value(), {.ranks = ranks, .root = root})
      .value();
}

TEST(Rotation, IsSeenInBlocksThatAreNumberedByRank) {
  for (const auto& [collective, name] : {std::pair(Collective::kBroadcast, "k_nomial"),
                                         std::pair(Collective::kGather, "binomial"),
                                         std::pair(Collective::kScatter, "binomial")}) {
    const Schedule first = made(collective, name, 6, 1);
    EXPECT_TRUE(is_rotated(first, made(collective, name, 6, 4), 3)) << name;
    EXPECT_TRUE(is_rotated(first, first, 0)) << name;
    EXPECT_FALSE(is_rotated(first, made(collective, name, 6, 4), 2)) << name;
    EXPECT_FALSE(is_rotated(first, made(collective, name, 5, 4), 3)) << name;
  }
}

// It sums in rank order, whoever the root is.
TEST(Rotation, IsNotSeenInAReductionInRankOrder) {
  EXPECT_FALSE(is_rotated(
      made(Collective::kReduce, "direct", 5, 0), made(Collective::kReduce, "direct", 5, 2), 2));
}

TEST(Rotation, IsNotSeenWhereAnythingElseDiffers) {
  const Schedule first = made(Collective::kScatter, "binomial", 8, 0);
  const Schedule rotated = made(Collective::kScatter, "binomial", 8, 3);
  ASSERT_TRUE(is_rotated(first, rotated, 3));
  const auto differs = [&](auto change) {
    Schedule changed = rotated;
    change(changed);
    return !is_rotated(first, changed, 3);
  };
  const auto last_step = [](Schedule& s) -> Step& { return s.ranks[3].back().steps.back(); };
  EXPECT_TRUE(differs([](Schedule& s) { s.problem.root = 2; }));
  EXPECT_TRUE(differs([](Schedule& s) { s.scratch[0].depth = 3; }));
  EXPECT_TRUE(differs([](Schedule& s) { s.channels[2].readers[0].rank ^= 1; }));
  EXPECT_TRUE(differs([](Schedule& s) { s.channels[2].single_hop = true; }));
  EXPECT_TRUE(differs([](Schedule& s) { s.channels.pop_back(); }));
  EXPECT_TRUE(differs([](Schedule& s) { s.ranks[5][0].need = Need::kReduce; }));
  EXPECT_TRUE(differs([](Schedule& s) { s.ranks[5].emplace_back(); }));
  EXPECT_TRUE(differs([&](Schedule& s) { last_step(s).from[0].index ^= 1; }));
  EXPECT_TRUE(differs([&](Schedule& s) { last_step(s).out[0] ^= 1; }));
  EXPECT_TRUE(differs([&](Schedule& s) { last_step(s).post = true; }));
  EXPECT_TRUE(differs([&](Schedule& s) { last_step(s).after.push_back({0, 0}); }));
}

// What the sweep takes a rotation for is proved here one root at a time.
TEST(Rotation, OfAProvedScheduleIsProved) {
  std::set<const Algorithm*> rotated;
  for (const Collective collective : kCollectives) {
    for (const Algorithm& algorithm : algorithms(collective)) {
      for (int root = 0; is_rooted(collective) && root < 7; ++root) {
        const Schedule first = made(collective, algorithm.name, 7, 0);
        const auto other =
            std::make_shared<const Schedule>(made(collective, algorithm.name, 7, root));
        if (root > 0 && is_rotated(first, *other, root)) {
          rotated.insert(&algorithm);
        }
        Plan plan;
        plan.strands.push_back(bind(other, PathKind::kShm, Protocol::kSlots, 2, Engine::kCpu));
        const Result<Proof> proof = verify(plan);
        ASSERT_TRUE(proof.ok()) << proof.status().message();
        EXPECT_EQ(proof->in_place, algorithm.in_place);
      }
    }
  }
  EXPECT_GE(rotated.size(), 11U);
}

}  // namespace
}  // namespace sennit
