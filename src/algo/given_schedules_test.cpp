#include "algo/given_schedules.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sennit {
namespace {

Schedule ring_of(int ranks, std::string name = "mine") {
  Schedule schedule =
      *make_schedule(**find_algorithm(Collective::kAllReduce, "ring"), {.ranks = ranks});
  schedule.algorithm = std::move(name);
  return schedule;
}

Schedule star_from(int root) {
  Schedule schedule = *make_schedule(**find_algorithm(Collective::kBroadcast, "direct"),
                                     {.ranks = 3, .root = root});
  schedule.algorithm = "star";
  return schedule;
}

TEST(GivenSchedules, EqualOnesHaveOneRow) {
  const Algorithm& row = keep_schedule(ring_of(4));
  EXPECT_EQ(&keep_schedule(ring_of(4)), &row);
  EXPECT_NE(keep_schedule(ring_of(5)).name, row.name);
  EXPECT_NE(keep_schedule(ring_of(4, "other")).name, row.name);
}

TEST(GivenSchedules, AreFoundByTheirNameAsTheyWereGiven) {
  const Algorithm& row = keep_schedule(ring_of(4));
  EXPECT_TRUE(row.name.starts_with("schedule:mine:")) << row.name;
  const Result<const Algorithm*> found = find_algorithm(Collective::kAllReduce, row.name);
  ASSERT_TRUE(found.ok()) << found.status().message();
  const Result<Schedule> made = make_schedule(**found, {.ranks = 4});
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(*made, ring_of(4));
}

TEST(GivenSchedules, OfAnotherCollectiveAreRefused) {
  const Algorithm& row = keep_schedule(ring_of(4));
  const Result<const Algorithm*> found = find_algorithm(Collective::kBroadcast, row.name);
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.status().message().find("is a schedule of all_reduce, and the call is broadcast"),
            std::string::npos)
      << found.status().message();
}

TEST(GivenSchedules, UnknownNamesAreRefused) {
  EXPECT_EQ(find_algorithm(Collective::kAllReduce, "schedule:mine:0").status().code(),
            Code::kInvalidArgument);
}

TEST(GivenSchedules, RefuseOtherRanksAndRoots) {
  EXPECT_EQ(refusal_of(keep_schedule(ring_of(4)), {.ranks = 3}), "this schedule is for 4 ranks");
  const Algorithm& star = keep_schedule(star_from(1));
  EXPECT_EQ(refusal_of(star, {.ranks = 3, .root = 1}), "");
  EXPECT_EQ(refusal_of(star, {.ranks = 3, .root = 2}),
            "this schedule is for root 1, and the call has root 2");
  EXPECT_EQ(make_schedule(star, {.ranks = 3, .root = 2}).status().code(), Code::kUnsupported);
}

TEST(GivenSchedules, RunWhereLengthsVaryIfNobodyPassesThemOn) {
  Schedule direct =
      *make_schedule(**find_algorithm(Collective::kAllGather, "direct"), {.ranks = 3});
  direct.algorithm = "mine";
  const Result<Schedule> varying =
      make_schedule(keep_schedule(direct), {.ranks = 3, .varying = true});
  ASSERT_TRUE(varying.ok()) << varying.status().message();
  EXPECT_TRUE(varying->problem.varying);
  EXPECT_EQ(refusal_of(keep_schedule(*varying), {.ranks = 3}),
            "this schedule is for blocks that vary in length");
}

}  // namespace
}  // namespace sennit
