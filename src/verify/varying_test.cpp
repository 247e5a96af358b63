// The proof of schedules whose blocks vary in length.
#include "algo/algorithm.hpp"
#include "schedule/builder.hpp"
#include "verify/checks.hpp"
#include "verify/testing/expectations.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace sennit {
namespace {

using namespace verify_test;

TEST(VerifyVarying, CatchesBlocksWhoseLengthARankCannotKnow) {
  Shape shape;
  shape.ranks = 4;
  Schedule gather = *make_schedule(**find_algorithm(Collective::kGather, "binomial"), shape);
  expect_proved(plan_of(gather));
  gather.problem.varying = true;
  expect_caught_only_by(
      &Checks::known_lengths, plan_of(std::move(gather)), "lengths: rank 2 keeps blocks");
}

// Rank 1 keeps the block of rank 0 where its own is to be, and moves it on before anybody looks.
TEST(VerifyVarying, CatchesABlockThatHoldsAnotherThanItIsNamedFor) {
  Builder b("detour", {.collective = Collective::kAllGather, .ranks = 2});
  const auto lanes = b.lane_on_every_rank(Need::kMove);
  const int forth = b.channel(lanes[0], lanes[1]);
  const int back = b.channel(lanes[1], lanes[0]);
  b.copy(lanes[0], {input_block(0)}, {output_block(0)});
  b.send(lanes[0], {input_block(0)}, forth);
  b.recv(lanes[0], back, {output_block(1)});
  b.send(lanes[1], {input_block(0)}, back);
  b.recv(lanes[1], forth, {output_block(1)});
  b.copy(lanes[1], {output_block(1)}, {output_block(0)});
  b.copy(lanes[1], {input_block(0)}, {output_block(1)});
  Schedule schedule = std::move(b).finish();
  expect_proved(plan_of(schedule));
  schedule.problem.varying = true;
  expect_caught_only_by(
      &Checks::known_lengths,
      plan_of(std::move(schedule)),
      "values: rank 1 lane 0 step 1 (recv) stores in output[1] of rank 1 what may "
      "have another length");
}

// The last block of a cut vector is short, so the number of a scratch block matters.
TEST(VerifyVarying, CatchesScratchOfAnotherLengthThanTheBlockOfACutVector) {
  for (const int kept_in : {0, 1}) {
    Builder b("staged", {.collective = Collective::kBroadcast, .ranks = 2, .cut = 2});
    const int stage = b.scratch("stage", 2, 1);
    const auto lanes = b.lane_on_every_rank(Need::kMove);
    const int channel = b.channel(lanes[0], lanes[1]);
    b.copy(lanes[0], {input_block(0), input_block(1)}, {output_block(0), output_block(1)});
    b.send(lanes[0], {input_block(0)}, channel);
    b.send(lanes[0], {input_block(1)}, channel);
    b.recv(lanes[1], channel, {output_block(0)});
    b.recv(lanes[1], channel, {scratch_block(stage, kept_in)});
    b.copy(lanes[1], {scratch_block(stage, kept_in)}, {output_block(1)});
    const Plan plan = plan_of(std::move(b).finish());
    if (kept_in == 1) {
      expect_proved(plan);
    } else {
      expect_caught_only_by(&Checks::known_lengths,
                            plan,
                            "stores in scratch stage[0] of rank 1 what may have another length");
    }
  }
}

// Two lanes of rank 0 write one block; a message to rank 1 and its answer lie between them. Blocks
// of other lengths travel in those, so in some tiles neither is sent.
TEST(VerifyVarying, CatchesAnOrderByMessagesThatMayBeMissing) {
  Builder b("relay", {.collective = Collective::kAllToAll, .ranks = 2});
  const auto lanes = b.lane_on_every_rank(Need::kMove);
  const LaneId second = b.lane(0, Need::kMove);
  const int forth = b.single_hop_channel(lanes[0], lanes[1]);
  const int back = b.single_hop_channel(lanes[1], second);
  b.copy(lanes[0], {input_block(0)}, {output_block(0)});
  b.send(lanes[0], {input_block(1)}, forth);
  b.recv(lanes[1], forth, {output_block(0)});
  b.send(lanes[1], {input_block(0)}, back);
  b.copy(lanes[1], {input_block(1)}, {output_block(1)});
  b.recv(second, back, {output_block(1)});
  b.copy(second, {input_block(0)}, {output_block(0)});
  Schedule schedule = std::move(b).finish();
  expect_proved(plan_of(schedule));
  schedule.problem.varying = true;
  expect_caught_only_by(&Checks::skips,
                        plan_of(std::move(schedule)),
                        "race: rank 0 lane 1 step 1 (copy) writes output[0] of rank 0 while rank 0 "
                        "lane 0 step 0 (copy) writes it");
}

}  // namespace
}  // namespace sennit
