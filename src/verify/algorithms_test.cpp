#include "algo/algorithm.hpp"
#include "verify/sweep.hpp"
#include "verify/testing/random_execution.hpp"
#include "verify/verify.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace sennit {
namespace {

std::string in_words(const SweepResult& result) {
  std::string words;
  for (const SweepFailure& failure : result.failures) {
    words += fmt::format("{} {}, {} ranks, root {}: {}\n",
                         name(failure.collective),
                         failure.algorithm,
                         failure.ranks,
                         failure.root,
                         failure.why);
  }
  return words;
}

// Proof, in-place claim, link loads and rounds of every row.
TEST(ProvedAlgorithms, AreWhatTheirTableClaims) {
  const SweepResult result = sweep({.ranks_first = 1, .ranks_last = 16});
  EXPECT_EQ(result.failed, 0) << in_words(result);
  EXPECT_GT(result.instances, 1000);
}

TEST(ProvedAlgorithms, StayProvedWithDirectProtocols) {
  for (const Protocol protocol : {Protocol::kDirectGet, Protocol::kDirectPut}) {
    const SweepResult result = sweep({.ranks_first = 1, .ranks_last = 8, .protocol = protocol});
    EXPECT_EQ(result.failed, 0) << in_words(result);
    EXPECT_GT(result.direct, 0) << name(protocol);
    EXPECT_LT(result.direct, result.instances) << name(protocol);
  }
}

Plan plan_of(Schedule schedule, int slots) {
  Plan plan;
  plan.strands.push_back(bind(std::make_shared<const Schedule>(std::move(schedule)),
                              PathKind::kShm,
                              Protocol::kSlots,
                              slots,
                              Engine::kCpu));
  return plan;
}

// Every row that runs where lengths vary, and every such shape up to eight ranks.
std::vector<Schedule> varying_schedules() {
  std::vector<Schedule> schedules;
  for (const Collective collective : kCollectives) {
    for (const Algorithm& algorithm : algorithms(collective)) {
      for (int ranks = 1; ranks <= 8 && has_varying_form(collective); ++ranks) {
        for (int root = 0; root < (is_rooted(collective) ? ranks : 1); ++root) {
          Shape shape;
          shape.ranks = ranks;
          shape.root = root;
          shape.varying = true;
          if (auto schedule = make_schedule(algorithm, shape); schedule.ok()) {
            schedules.push_back(std::move(schedule).value());
          }
        }
      }
    }
  }
  return schedules;
}

TEST(ProvedAlgorithms, AreProvedWhereLengthsVary) {
  const std::vector<Schedule> schedules = varying_schedules();
  EXPECT_GT(schedules.size(), 100U);
  for (const Schedule& schedule : schedules) {
    const Result<Proof> proof = verify(plan_of(schedule, /*slots=*/2));
    ASSERT_TRUE(proof.ok()) << schedule.algorithm << ": " << proof.status().message();
  }
}

// Whatever messages are left out, every order of execution comes to its end.
TEST(ProvedAlgorithms, EndWhateverTheLengths) {
  using namespace verify_test;
  Random random(20261121);
  for (const Schedule& schedule : varying_schedules()) {
    const Plan plan = plan_of(schedule, /*slots=*/1 + pick(random, 2));
    if (!verify(plan).ok()) {
      continue;  // a fused ring with one slot
    }
    constexpr int kTiles = 5;
    for (int repeat = 0; repeat < 5; ++repeat) {
      std::vector<int> tiles;
      for (const Channel& channel : schedule.channels) {
        tiles.push_back(channel.single_hop ? pick(random, kTiles + 1) : kTiles);
      }
      ASSERT_TRUE(Execution(plan.strands.front(), kTiles, tiles).run(random))
          << name(schedule.problem.collective) << " " << schedule.algorithm << ", "
          << schedule.problem.ranks << " ranks";
    }
  }
}

}  // namespace
}  // namespace sennit
