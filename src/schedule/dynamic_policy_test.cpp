#include "schedule/dynamic_policy.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <utility>
#include <vector>

namespace sennit {
namespace {

using Issue = DynamicPolicy::Issue;

std::vector<Issue> issues(DynamicPolicy& policy) {
  std::vector<Issue> all;
  while (const auto issue = policy.next()) {
    all.push_back(*issue);
  }
  return all;
}

void arrive_all(DynamicPolicy& policy, int members) {
  for (int member = 0; member < members; ++member) {
    policy.arrive(member);
  }
}

TEST(DynamicPolicy, ProbesBothTypesWithTheFirstTwoArrivals) {
  DynamicPolicy policy(4);
  EXPECT_TRUE(issues(policy).empty());
  policy.arrive(3);
  EXPECT_EQ(issues(policy), (std::vector<Issue>{{.member = 3, .type = 0}}));
  policy.arrive(1);
  policy.arrive(2);
  EXPECT_EQ(issues(policy), (std::vector<Issue>{{.member = 1, .type = 1}}));
  EXPECT_TRUE(issues(policy).empty()) << "nothing has completed yet";
}

TEST(DynamicPolicy, IssuesTwoToTheDifferenceOfTheFasterType) {
  DynamicPolicy policy(15);
  arrive_all(policy, 15);
  issues(policy);  // member 0 by type 0, member 1 by type 1
  policy.complete(1, 1);
  EXPECT_EQ(issues(policy).size(), 2U) << "one ahead: two";
  policy.complete(2, 1);
  EXPECT_EQ(issues(policy).size(), 4U) << "two ahead: four";
  // The slower type is used as well, one at a time.
  policy.complete(0, 0);
  EXPECT_EQ(issues(policy), (std::vector<Issue>{{.member = 8, .type = 0}}));
  policy.complete(3, 1);
  EXPECT_EQ(issues(policy).size(), 4U) << "three against one: four";
  EXPECT_EQ(policy.completed(0), 1);
  EXPECT_EQ(policy.completed(1), 3);
}

TEST(DynamicPolicy, KeepsWhatIsGrantedForThoseWhoComeLater) {
  DynamicPolicy policy(4);
  policy.arrive(0);
  policy.arrive(1);
  issues(policy);
  policy.complete(1, 1);
  EXPECT_TRUE(issues(policy).empty());
  policy.arrive(2);
  policy.arrive(3);
  EXPECT_EQ(issues(policy),
            (std::vector<Issue>{{.member = 2, .type = 1}, {.member = 3, .type = 1}}));
}

TEST(DynamicPolicy, SendsTheLastCopyAgainIfItsTypeHasNothingToShow) {
  DynamicPolicy policy(2);
  arrive_all(policy, 2);
  issues(policy);
  policy.complete(1, 1);
  EXPECT_EQ(issues(policy), (std::vector<Issue>{{.member = 0, .type = 1, .again = true}}));
  EXPECT_TRUE(issues(policy).empty()) << "once is enough";
  policy.complete(0, 1);
  EXPECT_FALSE(policy.finished()) << "the late copy still writes";
  policy.complete(0, 0);
  EXPECT_TRUE(policy.finished());
}

TEST(DynamicPolicy, DoesNotSendAgainWithoutReason) {
  DynamicPolicy one(1);
  one.arrive(0);
  EXPECT_EQ(issues(one).size(), 1U);
  EXPECT_TRUE(issues(one).empty()) << "nothing says that the other type is faster";
  DynamicPolicy proven(3);
  arrive_all(proven, 3);
  issues(proven);
  proven.complete(0, 0);
  EXPECT_EQ(issues(proven), (std::vector<Issue>{{.member = 2, .type = 0}}));
  proven.complete(1, 1);
  EXPECT_TRUE(issues(proven).empty()) << "type 0 has completed before";
  proven.complete(2, 0);
  EXPECT_TRUE(proven.finished());
}

TEST(DynamicPolicy, AvoidsATypeThatNeverCompletedInTheScatter) {
  DynamicPolicy policy(3);
  EXPECT_EQ(policy.type_for_scatter({0, 0}), 0);
  EXPECT_EQ(policy.type_for_scatter({1, 0}), 1);
  arrive_all(policy, 3);
  issues(policy);
  policy.complete(1, 1);
  EXPECT_EQ(policy.type_for_scatter({0, 100}), 1);
  policy.complete(0, 0);
  EXPECT_EQ(policy.type_for_scatter({0, 100}), 0);
}

// Whatever completes when: every copy is issued once, and again at most once in all.
TEST(DynamicPolicy, IssuesEveryCopyUnderEveryOrderOfCompletions) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    const int copies = 1 + static_cast<int>(random() % 12);
    DynamicPolicy policy(copies);
    std::vector<std::pair<int, int>> under_way;
    std::set<int> issued;
    int again = 0;
    int arrived = 0;
    while (!policy.finished()) {
      while (const auto issue = policy.next()) {
        under_way.emplace_back(issue->member, issue->type);
        again += issue->again ? 1 : 0;
        EXPECT_NE(issued.insert(issue->member).second, issue->again);
      }
      if (arrived < copies && (under_way.empty() || random() % 2 == 0)) {
        policy.arrive(arrived++);
        continue;
      }
      ASSERT_FALSE(under_way.empty()) << "stalled, seed " << seed;
      const auto done =
          under_way.begin() + static_cast<std::ptrdiff_t>(random() % under_way.size());
      policy.complete(done->first, done->second);
      under_way.erase(done);
    }
    EXPECT_EQ(static_cast<int>(issued.size()), copies);
    EXPECT_LE(again, 1);
    EXPECT_TRUE(under_way.empty());
    EXPECT_EQ(policy.completed(0) + policy.completed(1), copies + again);
  }
}

}  // namespace
}  // namespace sennit
