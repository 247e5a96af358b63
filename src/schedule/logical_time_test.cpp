#include "schedule/logical_time.hpp"

#include "schedule/builder.hpp"
#include "schedule/testing/sample_schedules.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace sennit {
namespace {

TEST(LogicalTime, IsTheLongestChainBeforeAStep) {
  const LogicalTime time = logical_time(schedule_with_everything());
  std::vector<int> ticks;
  for (const StepNode& node : time.nodes) {
    ticks.push_back(node.tick);
  }
  // rank 0: send, token, recv_reduce; rank 1: token, recv, token | copy, reduce; rank 2: recv.
  EXPECT_EQ(ticks, (std::vector<int>{0, 1, 4, 0, 1, 2, 2, 3, 1}));
  EXPECT_EQ(time.ticks, 5);
  EXPECT_FALSE(time.cyclic);
}

TEST(LogicalTime, HasOneEdgePerReaderOfAHub) {
  const LogicalTime time = logical_time(schedule_with_everything());
  int hub_edges = 0;
  for (const StepEdge& edge : time.edges) {
    hub_edges += edge.kind == EdgeKind::kMessage && edge.channel == 0 ? 1 : 0;
  }
  EXPECT_EQ(hub_edges, 2);
}

TEST(LogicalTime, SaysWhenStepsWaitInACircle) {
  Builder b("circle", {Collective::kBarrier, 2, 0, 1});
  const LaneId zero = b.lane(0, Need::kMove);
  const LaneId one = b.lane(1, Need::kMove);
  const int there = b.channel(zero, one);
  const int back = b.channel(one, zero);
  b.token(zero, {back}, {there});
  b.token(one, {there}, {back});
  const LogicalTime time = logical_time(std::move(b).finish());
  EXPECT_TRUE(time.cyclic);
  EXPECT_EQ(time.ticks, 1);
}

}  // namespace
}  // namespace sennit
