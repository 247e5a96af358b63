#include "select/candidates.hpp"

#include "machine/catalogue.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace sennit {
namespace {

TEST(Candidates, AreRankedByWhatTheSimulatorPredicts) {
  const Topology machine = *find_machine("thetagpu");
  const Candidates large = rank_candidates(
      {.collective = Collective::kAllReduce, .ranks = 8, .bytes = std::int64_t{256} << 20},
      machine);
  const Candidates small =
      rank_candidates({.collective = Collective::kAllReduce, .ranks = 8, .bytes = 256}, machine);
  EXPECT_EQ(large.ranked.size() + large.refused.size(), algorithms(Collective::kAllReduce).size());
  EXPECT_TRUE(std::ranges::is_sorted(large.ranked, {}, &Candidate::seconds));
  // Few bytes want few rounds, many bytes little traffic.
  const auto place = [](const Candidates& candidates, std::string_view algorithm) {
    return std::ranges::find_if(
               candidates.ranked,
               [&](const Candidate& candidate) { return candidate.algorithm->name == algorithm; }) -
           candidates.ranked.begin();
  };
  EXPECT_LT(place(small, "recursive_doubling"), place(small, "ring"));
  EXPECT_LT(place(large, "ring"), place(large, "recursive_doubling"));
  EXPECT_TRUE(small.reason().starts_with(small.ranked.front().algorithm->name)) << small.reason();
}

TEST(Candidates, WhatCannotRunIsToldWithItsReason) {
  const Candidates none = rank_candidates(
      {.collective = Collective::kBroadcast, .ranks = 3, .bytes = 8}, *find_machine("h200-x2"));
  EXPECT_TRUE(none.ranked.empty());
  ASSERT_FALSE(none.refused.empty());
  EXPECT_EQ(none.refused.front().refused,
            "3 ranks need 2 nodes of machine h200-x2, which has no fabric to join them");
  EXPECT_EQ(none.reason(), "no algorithm runs on this machine");
}

}  // namespace
}  // namespace sennit
