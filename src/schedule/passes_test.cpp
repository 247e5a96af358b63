#include "schedule/passes.hpp"

#include "schedule/builder.hpp"

#include <gtest/gtest.h>

namespace sennit {
namespace {

// Rank 0 sends to rank 1, which has the lane under test and sends to rank 2 and rank 3.
class Fuse : public ::testing::Test {
 protected:
  Fuse()
      : b_("test", {.collective = Collective::kAllReduce, .ranks = 4, .cut = 3}),
        source_(b_.lane(0, Need::kMove)),
        lane_(b_.lane(1, Need::kReduce)),
        other_(b_.lane(1, Need::kReduce)),
        sink_(b_.lane(2, Need::kMove)),
        second_sink_(b_.lane(3, Need::kMove)),
        in_(b_.channel(source_, lane_)),
        out_(b_.channel(lane_, sink_)),
        second_out_(b_.channel(lane_, second_sink_)) {}

  // Block 0 arrives; its send to `out_` is left to the test.
  StepRef receive(Blocks to) {
    b_.send(source_, input_blocks(static_cast<int>(to.size())), in_);
    return b_.recv(lane_, in_, std::move(to));
  }

  StepRef send(Blocks from) {
    b_.recv(sink_, out_, output_blocks(static_cast<int>(from.size())));
    return b_.send(lane_, std::move(from), out_);
  }

  StepRef send_second(Blocks from) {
    b_.recv(second_sink_, second_out_, output_blocks(static_cast<int>(from.size())));
    return b_.send(lane_, std::move(from), second_out_);
  }

  // Fuses what was built, and checks what must hold of any fusion.
  const Schedule& fused() {
    const Schedule before = std::move(b_).finish();
    result_ = fuse(before);
    EXPECT_TRUE(check_structure(result_).ok()) << check_structure(result_).message();
    EXPECT_EQ(fuse(result_), result_);
    EXPECT_EQ(result_.channels, before.channels);
    for (int c = 0; c < static_cast<int>(before.channels.size()); ++c) {
      EXPECT_EQ(messages_per_tile(result_, c), messages_per_tile(before, c));
    }
    return result_;
  }

  const std::vector<Step>& fused_steps() { return fused().ranks[1][0].steps; }

  Builder b_;
  LaneId source_;
  LaneId lane_;
  LaneId other_;
  LaneId sink_;
  LaneId second_sink_;
  int in_;
  int out_;
  int second_out_;
  Schedule result_;
};

TEST_F(Fuse, ARecvAndTheSendOfItsBlocksBecomeOneStepThatKeepsTheResult) {
  receive({output_block(0)});
  send({output_block(0)});
  const auto& steps = fused_steps();
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].kind, StepKind::kRecv);
  EXPECT_EQ(steps[0].in, std::vector{in_});
  EXPECT_EQ(steps[0].out, std::vector{out_});
  EXPECT_EQ(steps[0].to, Blocks{output_block(0)});
}

TEST_F(Fuse, SeveralSendsOfTheSameBlocksAllJoin) {
  receive({output_block(0)});
  send({output_block(0)});
  send_second({output_block(0)});
  const auto& steps = fused_steps();
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].out, (std::vector{out_, second_out_}));
}

TEST_F(Fuse, ASecondMessageToTheSameChannelStaysAStepOfItsOwn) {
  receive({output_block(0)});
  send({output_block(0)});
  send({output_block(0)});
  EXPECT_EQ(fused_steps().size(), 2U);
}

TEST_F(Fuse, ARecvReduceKeepsItsOperandsAndOrder) {
  b_.send(source_, {input_block(0)}, in_);
  b_.step(lane_,
          {.kind = StepKind::kRecvReduce,
           .from = {input_block(0)},
           .to = {output_block(0)},
           .in = {in_},
           .order = {1, 0}});
  send({output_block(0)});
  const auto& steps = fused_steps();
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].kind, StepKind::kRecvReduce);
  EXPECT_EQ(steps[0].from, Blocks{input_block(0)});
  EXPECT_EQ(steps[0].order, (std::vector{1, 0}));
}

TEST_F(Fuse, OtherBlocksOrAStepBetweenPreventIt) {
  receive({output_block(0)});
  send({output_block(1)});
  receive({output_block(0), output_block(1)});
  send({output_block(1), output_block(0)});
  receive({output_block(0)});
  b_.copy(lane_, {input_block(1)}, {output_block(1)});
  send({output_block(0)});
  EXPECT_EQ(fused_steps().size(), 7U);
}

TEST_F(Fuse, ASendThatWaitsForAnotherLaneStaysASend) {
  const StepRef copied = b_.copy(other_, {input_block(1)}, {output_block(1)});
  receive({output_block(0)});
  send({output_block(0)});
  b_.after(lane_, {copied});
  EXPECT_EQ(fused_steps().size(), 2U);
}

TEST_F(Fuse, ASendThatWaitsForWhatTheRecvWaitsForJoins) {
  const StepRef copied = b_.copy(other_, {input_block(1)}, {output_block(1)});
  const StepRef received = receive({output_block(0)});
  b_.after(lane_, {copied});
  send({output_block(0)});
  b_.after(lane_, {copied, received});
  const auto& steps = fused_steps();
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].after, std::vector{copied});
}

TEST_F(Fuse, ARecvThatAnotherLaneWaitsForStaysARecv) {
  const StepRef received = receive({output_block(0)});
  send({output_block(0)});
  b_.copy(other_, {input_block(1)}, {output_block(1)});
  b_.after(other_, {received});
  EXPECT_EQ(fused_steps().size(), 2U);
}

TEST_F(Fuse, WhoWaitsForTheSendWaitsForTheFusedStep) {
  receive({output_block(0)});
  const StepRef first = send({output_block(0)});
  receive({output_block(1)});
  const StepRef second = send({output_block(1)});
  b_.copy(other_, {input_block(2)}, {output_block(2)});
  b_.after(other_, {second, first});
  const Schedule& schedule = fused();
  ASSERT_EQ(schedule.ranks[1][0].steps.size(), 2U);
  EXPECT_EQ(schedule.ranks[1][1].steps[0].after, (std::vector<StepRef>{{0, 0}, {0, 1}}));
}

TEST_F(Fuse, AStoreThatIsOverwrittenUnreadIsDropped) {
  receive({output_block(0)});
  send({output_block(0)});
  b_.copy(lane_, {input_block(1)}, {output_block(0)});
  EXPECT_TRUE(fused_steps()[0].to.empty());
}

TEST_F(Fuse, AStoreThatIsReadBeforeItIsOverwrittenIsKept) {
  receive({output_block(0)});
  send({output_block(0)});
  b_.copy(lane_, {output_block(0)}, {output_block(1)});
  b_.copy(lane_, {input_block(1)}, {output_block(0)});
  EXPECT_FALSE(fused_steps()[0].to.empty());
}

TEST_F(Fuse, AStoreIsKeptWhenTheInputInItsPlaceIsReadFirst) {
  receive({output_block(0)});
  send({output_block(0)});
  b_.copy(lane_, {input_block(0)}, {output_block(1)});
  b_.copy(lane_, {input_block(1)}, {output_block(0)});
  EXPECT_FALSE(fused_steps()[0].to.empty());
}

TEST_F(Fuse, AStoreThatAnotherLaneTouchesIsKept) {
  receive({output_block(0)});
  send({output_block(0)});
  b_.copy(lane_, {input_block(1)}, {output_block(0)});
  b_.copy(other_, {output_block(0)}, {output_block(1)});
  EXPECT_FALSE(fused_steps()[0].to.empty());
}

TEST_F(Fuse, AStoreIsKeptUnlessAllItsBlocksAreDead) {
  receive({output_block(0), output_block(1)});
  send({output_block(0), output_block(1)});
  b_.copy(lane_, {input_block(0)}, {output_block(0)});
  EXPECT_EQ(fused_steps()[0].to.size(), 2U);
}

TEST_F(Fuse, AStoreOfAStepThatSendsNothingIsKept) {
  // Dropping it would leave a recv without any effect; the message must still be taken.
  receive({output_block(0)});
  b_.copy(lane_, {input_block(0)}, {output_block(0)});
  EXPECT_EQ(fused_steps()[0].to, Blocks{output_block(0)});
}

}  // namespace
}  // namespace sennit
