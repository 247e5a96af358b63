// The cpu engine compiles exactly what was proved.
#include "algo/algorithm.hpp"
#include "exec/cpu/program.hpp"
#include "verify/verify.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

namespace sennit {
namespace {

class Compile : public testing::Test {
 protected:
  Compile() {
    const Algorithm* two_shot = find_algorithm(Collective::kAllReduce, "two_shot").value();
    plan_.strands.push_back(
        bind(std::make_shared<const Schedule>(make_schedule(*two_shot, {.ranks = 3}).value()),
             PathKind::kShm,
             Protocol::kSlots,
             /*slots=*/4,
             Engine::kCpu));
    plan_.strands.front().tile_bytes = 128;
    proof_ = verify(plan_).value();
  }

  Code code_of(const Plan& plan, std::uint32_t ring_slots = 4) {
    return compile(std::make_shared<const Plan>(plan),
                   proof_,
                   0,
                   {.ports = 4, .slots = ring_slots, .slot_bytes = 4096})
        .status()
        .code();
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

  Plan plan_;
  Proof proof_;
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
  const Algorithm* direct = find_algorithm(Collective::kAllToAll, "direct").value();
  Plan plan;
  plan.strands.push_back(
      bind(std::make_shared<const Schedule>(make_schedule(*direct, {.ranks = 2}).value()),
           PathKind::kCma,
           Protocol::kDirectGet,
           /*slots=*/4,
           Engine::kCpu));
  plan.strands.front().tile_bytes = 128;
  const Proof proof = verify(plan).value();
  for (const int rank : {0, 1}) {
    const Program program = compile(std::make_shared<const Plan>(plan),
                                    proof,
                                    rank,
                                    {.ports = 4, .slots = 4, .slot_bytes = 4096})
                                .value();
    std::vector<StepKind> kinds;
    for (const std::size_t lane : program.turns) {
      kinds.push_back(program.lanes[lane].steps.front().kind);
    }
    EXPECT_EQ(kinds, (std::vector{StepKind::kSend, StepKind::kCopy, StepKind::kRecv}));
  }
}

}  // namespace
}  // namespace sennit
