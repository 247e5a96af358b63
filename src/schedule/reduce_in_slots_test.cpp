#include "schedule/builder.hpp"
#include "schedule/passes.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sennit {
namespace {

// Ranks 1 and 2 send to rank 0, which sums what has come in `sums` once both have.
struct Gathered {
  Builder builder{"test", {.collective = Collective::kReduce, .ranks = 3}};
  LaneId sums = builder.lane(0, Need::kReduce);
  Step total{.kind = StepKind::kReduce, .from = {input_block(0)}, .to = {output_block(0)}};

  Gathered() {
    for (const int peer : {1, 2}) {
      const LaneId sender = builder.lane(peer, Need::kMove);
      const LaneId receiver = builder.lane(0, Need::kMove);
      const int channel = builder.channel(sender, receiver);
      const int scratch = builder.scratch("of_" + std::to_string(peer), 1, 2);
      builder.send(sender, {input_block(0)}, channel);
      total.from.push_back(scratch_block(scratch, 0));
      total.after.push_back(builder.recv(receiver, channel, {scratch_block(scratch, 0)}));
    }
  }
};

TEST(ReduceInSlots, TakesMessagesWithoutScratch) {
  Gathered gathered;
  gathered.builder.step(gathered.sums, gathered.total);
  const Schedule made = reduce_in_slots(std::move(gathered.builder).finish());
  EXPECT_TRUE(check_structure(made).ok()) << check_structure(made).message();
  EXPECT_TRUE(made.scratch.empty());
  ASSERT_EQ(made.ranks[0].size(), 1U);
  const Step& sum = made.ranks[0][0].steps[0];
  EXPECT_EQ(sum.kind, StepKind::kRecvReduce);
  EXPECT_EQ(sum.from, std::vector{input_block(0)});
  EXPECT_EQ(sum.in, (std::vector{0, 1}));
  EXPECT_TRUE(sum.after.empty());
  EXPECT_EQ(made.channels[1].readers, (std::vector<LaneId>{{0, 0}}));
  EXPECT_EQ(reduce_in_slots(made), made);
}

TEST(ReduceInSlots, LeavesScratchThatIsReadTwice) {
  Gathered gathered;
  const StepRef summed = gathered.builder.step(gathered.sums, gathered.total);
  gathered.builder.copy(gathered.sums, {gathered.total.from[1]}, {output_block(0)});
  (void)summed;
  const Schedule made = std::move(gathered.builder).finish();
  EXPECT_EQ(reduce_in_slots(made), made);
}

TEST(ReduceInSlots, LeavesRecvsForWhichAnotherStepWaits) {
  Gathered gathered;
  gathered.builder.step(gathered.sums, gathered.total);
  const StepRef first = gathered.total.after.front();
  const LaneId other = gathered.builder.lane(0, Need::kMove);
  gathered.builder.step(other,
                        {.kind = StepKind::kCopy,
                         .from = {input_block(0)},
                         .to = {output_block(0)},
                         .after = {first}});
  const Schedule made = std::move(gathered.builder).finish();
  EXPECT_EQ(reduce_in_slots(made), made);
}

}  // namespace
}  // namespace sennit
