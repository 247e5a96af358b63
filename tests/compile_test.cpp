// The cpu engine compiles exactly what was proved.
#include "algo/algorithm.hpp"
#include "exec/cpu/program.hpp"
#include "verify/verify.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace sennit {
namespace {

// A plan of one strand for the cpu engine.
Plan plan_of(Collective collective,
             std::string_view algorithm,
             int ranks,
             PathKind path,
             Protocol protocol) {
  const Algorithm* found = find_algorithm(collective, algorithm).value();
  Plan plan;
  plan.strands.push_back(
      bind(std::make_shared<const Schedule>(make_schedule(*found, {.ranks = ranks}).value()),
           path,
           protocol,
           /*slots=*/4,
           Engine::kCpu));
  plan.strands.front().tile_bytes = 128;
  return plan;
}

Result<Program> compiled(const Plan& plan,
                         const Proof& proof,
                         int rank,
                         std::uint32_t ring_slots = 4) {
  return compile(std::make_shared<const Plan>(plan),
                 proof,
                 rank,
                 {.ports = 4, .slots = ring_slots, .slot_bytes = 4096});
}

class Compile : public testing::Test {
 protected:
  Code code_of(const Plan& plan, std::uint32_t ring_slots = 4) {
    return compiled(plan, proof_, 0, ring_slots).status().code();
  }
  // The plan with its schedule changed.
  template <typename Change>
  Plan changed(Change&& change) {
    Plan plan = plan_;
    Schedule schedule = *plan.strands.front().schedule;
    change(schedule);
    plan.strands.front().schedule = std::make_shared<const Schedule>(std::move(schedule));
    return plan;
  }

  Plan plan_ = plan_of(Collective::kAllReduce, "two_shot", 3, PathKind::kShm, Protocol::kSlots);
  Proof proof_ = verify(plan_).value();
};

TEST_F(Compile, TakesThePlanThatWasProved) { EXPECT_EQ(code_of(plan_), Code::kOk); }

TEST_F(Compile, TakesAnotherTileSizeWhichTheProofDoesNotDependOn) {
  plan_.strands.front().tile_bytes *= 2;
  EXPECT_EQ(code_of(plan_), Code::kOk);
}

TEST_F(Compile, RefusesAChangedStep) {
  const Plan plan = changed([](Schedule& schedule) {
    Step& step = schedule.ranks[0][0].steps.front();
    step.post = !step.post;
  });
  EXPECT_EQ(code_of(plan), Code::kNotProved);
}

TEST_F(Compile, RefusesExchangedSteps) {
  const Plan plan = changed([](Schedule& schedule) {
    std::vector<Step>& steps = schedule.ranks[0][0].steps;
    ASSERT_GE(steps.size(), 2U);
    std::swap(steps[0], steps[1]);
  });
  EXPECT_EQ(code_of(plan), Code::kNotProved);
}

TEST_F(Compile, RefusesOtherSlots) {
  plan_.strands.front().channels.front().slots = 3;
  EXPECT_EQ(code_of(plan_), Code::kNotProved);
}

TEST_F(Compile, RefusesAnotherProtocol) {
  plan_.strands.front().channels.back().protocol = Protocol::kDirectGet;
  plan_.strands.front().channels.back().paths = {PathKind::kCma};
  EXPECT_EQ(code_of(plan_), Code::kNotProved);
}

TEST_F(Compile, RefusesAnotherBurst) {
  plan_.strands.front().lanes.front().front().burst = 2;
  EXPECT_EQ(code_of(plan_), Code::kNotProved);
}

TEST_F(Compile, RefusesRingsWithAnotherNumberOfSlotsThanProved) {
  EXPECT_EQ(code_of(plan_, 3), Code::kUnsupported);
  EXPECT_EQ(code_of(plan_, 5), Code::kUnsupported);
}

// Else a rank fetches out of its peer's memory before it lets the peer begin, and two ranks take
// turns for good.
TEST(CompiledLanes, ThoseThatBeginWithASendAreTriedFirst) {
  const Plan plan =
      plan_of(Collective::kAllToAll, "direct", 2, PathKind::kCma, Protocol::kDirectGet);
  const Proof proof = verify(plan).value();
  for (const int rank : {0, 1}) {
    const Program program = compiled(plan, proof, rank).value();
    std::vector<StepKind> kinds;
    for (const std::size_t lane : program.turns) {
      kinds.push_back(program.lanes[lane].steps.front().kind);
    }
    EXPECT_EQ(kinds, (std::vector{StepKind::kSend, StepKind::kCopy, StepKind::kRecv}));
  }
}

}  // namespace
}  // namespace sennit
