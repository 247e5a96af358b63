// What the proof accepts runs right in every order of execution that is tried: valid schedules are
// spoilt at random and both the verifier and a plain execution of one tile look at the result.
#include "algo/algorithm.hpp"
#include "algo/testing/one_tile.hpp"
#include "base/testing/trials.hpp"
#include "verify/testing/random_execution.hpp"
#include "verify/verify.hpp"

#include <gtest/gtest.h>

namespace sennit {
namespace {

using namespace verify_test;

Lane& any_lane(Random& random, Schedule& schedule) {
  while (true) {
    auto& lanes = schedule.ranks[static_cast<std::size_t>(pick(random, schedule.problem.ranks))];
    Lane& lane = lanes[static_cast<std::size_t>(pick(random, static_cast<int>(lanes.size())))];
    if (!lane.steps.empty()) {
      return lane;
    }
  }
}

std::size_t any_index(Random& random, std::size_t size) {
  return static_cast<std::size_t>(pick(random, static_cast<int>(size)));
}

// One small mistake of the kind that people make. Operands are not reordered: the execution takes
// operators for non-commutative.
void spoil(Random& random, Schedule& schedule) {
  Lane& lane = any_lane(random, schedule);
  Step& step = lane.steps[any_index(random, lane.steps.size())];
  switch (pick(random, 5)) {
    case 0:
      std::swap(step, lane.steps[any_index(random, lane.steps.size())]);
      break;
    case 1:
      step.after.clear();
      break;
    case 2:
      if (!step.to.empty()) {
        step.to[any_index(random, step.to.size())].index = pick(random, schedule.problem.ranks);
      }
      break;
    case 3:
      if (!step.from.empty()) {
        step.from[any_index(random, step.from.size())].index = pick(random, schedule.problem.ranks);
      }
      break;
    default:
      if (step.in.empty() && step.out.empty()) {
        step = Step{.kind = StepKind::kCopy, .from = step.from, .to = step.to};
        lane.steps.insert(lane.steps.begin(), step);
      } else if (!step.to.empty() && !step.out.empty()) {
        step.to.clear();
      }
      break;
  }
}

Schedule any_schedule(Random& random) {
  while (true) {
    const Collective collective = kCollectives[any_index(random, kCollectives.size())];
    const auto rows = algorithms(collective);
    Shape shape;
    shape.ranks = 2 + pick(random, 5);
    shape.root = is_rooted(collective) ? pick(random, shape.ranks) : 0;
    const Result<Schedule> schedule = make_schedule(rows[any_index(random, rows.size())], shape);
    if (schedule.ok() && collective != Collective::kBarrier) {
      return *schedule;
    }
  }
}

TEST(Agreement, WhatIsProvedRunsRightInEveryOrderTried) {
  int proved = 0;
  int refused = 0;
  constexpr int kSeeds = trials(12000, 3000);
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    Random random(seed);
    Schedule schedule = any_schedule(random);
    const Schedule good = schedule;
    spoil(random, schedule);
    if (schedule == good || !check_structure(schedule).ok()) {
      continue;
    }
    const int slots = 1 + pick(random, 3);
    Plan plan;
    plan.strands.push_back(bind(std::make_shared<const Schedule>(schedule),
                                PathKind::kShm,
                                Protocol::kSlots,
                                slots,
                                Engine::kCpu));
    const Result<Proof> proof = verify(plan);
    ++(proof.ok() ? proved : refused);
    for (unsigned order = 0; order < 3 && proof.ok(); ++order) {
      for (const bool in_place : {false, true}) {
        if (!in_place || proof->in_place) {
          ASSERT_EQ(one_tile::run(schedule, {.in_place = in_place, .slots = slots, .seed = order}),
                    "")
              << name(schedule.problem.collective) << " " << schedule.algorithm << ", seed "
              << seed;
        }
      }
    }
  }
  EXPECT_GT(proved, kSeeds / 40);
  EXPECT_GT(refused, kSeeds / 12);
}

}  // namespace
}  // namespace sennit
