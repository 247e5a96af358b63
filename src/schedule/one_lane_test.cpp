#include "schedule/one_lane.hpp"

#include "schedule/builder.hpp"
#include "schedule/logical_time.hpp"

#include <gtest/gtest.h>

namespace sennit {
namespace {

TEST(OneLane, KeepsWhatLanesAndAfterHaveKeptInOrder) {
  Builder b("test", {.collective = Collective::kBroadcast, .ranks = 3});
  const int held = b.scratch("held", 1, 3);
  const LaneId root = b.lane(0, Need::kMove);
  const LaneId passing = b.lane(1, Need::kMove);
  const LaneId arriving = b.lane(1, Need::kReduce);
  const LaneId last = b.lane(2, Need::kMove);
  const int first_hop = b.channel(root, arriving);
  const int second_hop = b.channel(passing, last);
  b.send(root, {input_block(0)}, first_hop);
  const StepRef came = b.recv(arriving, first_hop, {scratch_block(held, 0)});
  b.send(passing, {scratch_block(held, 0)}, second_hop);
  b.after(passing, {came});
  b.copy(passing, {scratch_block(held, 0)}, {output_block(0)});
  b.recv(last, second_hop, {output_block(0)});
  const Result<Schedule> joined = join_lanes(std::move(b).finish(), 2);
  ASSERT_TRUE(joined.ok()) << joined.status().message();
  EXPECT_TRUE(check_structure(*joined).ok()) << check_structure(*joined).message();
  ASSERT_EQ(joined->ranks[1].size(), 1U);
  const Lane& lane = joined->ranks[1].front();
  ASSERT_EQ(lane.steps.size(), 3U);
  EXPECT_EQ(lane.steps[0].kind, StepKind::kRecv);
  EXPECT_EQ(lane.steps[1].kind, StepKind::kSend);
  EXPECT_TRUE(lane.steps[1].after.empty());
  EXPECT_EQ(lane.steps[2].kind, StepKind::kCopy);
  EXPECT_EQ(lane.need, Need::kReduce);
  EXPECT_EQ(joined->scratch.front().depth, 1);
  EXPECT_FALSE(logical_time(*joined).cyclic);
}

// Two ranks send each other three messages, in lanes of their own: with one slot no rank may send
// them all before it takes any.
Schedule exchange_of_three() {
  Builder b("test", {.collective = Collective::kAllReduce, .ranks = 2, .cut = 3});
  const auto sends = b.lane_on_every_rank(Need::kMove);
  const auto recvs = b.lane_on_every_rank(Need::kReduce);
  for (std::size_t from = 0; from < 2; ++from) {
    const int channel = b.channel(sends[from], recvs[1 - from]);
    for (int block = 0; block < 3; ++block) {
      b.send(sends[from], {input_block(block)}, channel);
      b.recv_reduce(recvs[1 - from], channel, {input_block(block)}, {output_block(block)});
    }
  }
  return std::move(b).finish();
}

TEST(OneLane, OrdersStepsForTheSlotsThatThereAre) {
  for (const int slots : {1, 2, 3}) {
    const Result<Schedule> joined = join_lanes(exchange_of_three(), slots);
    ASSERT_TRUE(joined.ok()) << joined.status().message();
    int waiting = 0;
    for (const Step& step : joined->ranks[0].front().steps) {
      waiting += step.kind == StepKind::kSend ? 1 : -1;
      EXPECT_LE(waiting, slots);
    }
  }
}

TEST(OneLane, RefusesWhatStandsStill) {
  Builder b("stuck", {.collective = Collective::kAllReduce, .ranks = 2});
  const auto lanes = b.lane_on_every_rank(Need::kReduce);
  const int there = b.channel(lanes[0], lanes[1]);
  const int back = b.channel(lanes[1], lanes[0]);
  b.recv_reduce(lanes[0], back, {input_block(0)}, {output_block(0)});
  b.send(lanes[0], {input_block(0)}, there);
  b.recv_reduce(lanes[1], there, {input_block(0)}, {output_block(0)});
  b.send(lanes[1], {input_block(0)}, back);
  const Result<Schedule> joined = join_lanes(std::move(b).finish(), 2);
  EXPECT_EQ(joined.status().code(), Code::kNotProved);
  EXPECT_NE(joined.status().message().find("step 0 of lane 0 of rank 0"), std::string::npos)
      << joined.status().message();
}

}  // namespace
}  // namespace sennit
