#include "schedule/builder.hpp"
#include "schedule/passes.hpp"

#include <gtest/gtest.h>

namespace sennit {
namespace {

TEST(Loosen, GivesStepsThatNeedNotWaitForEachOtherLanesOfTheirOwn) {
  Builder b("test", {.collective = Collective::kAllToAll, .ranks = 3});
  const LaneId sends = b.lane(0, Need::kMove);
  for (const int peer : {1, 2}) {
    const LaneId lane = b.lane(peer, Need::kMove);
    const int channel = b.channel(sends, lane);
    b.send(sends, {input_block(peer)}, channel);
    b.recv(lane, channel, {output_block(0)});
  }
  const Schedule loose = loosen(std::move(b).finish());
  EXPECT_TRUE(check_structure(loose).ok()) << check_structure(loose).message();
  ASSERT_EQ(loose.ranks[0].size(), 2U);
  EXPECT_EQ(loose.ranks[0][1].steps.size(), 1U);
  EXPECT_EQ(loose.channels[1].writer, (LaneId{0, 1}));
  EXPECT_EQ(loosen(loose), loose);
}

TEST(Loosen, KeepsWhatReadsBehindWhatWrites) {
  Builder b("test", {.collective = Collective::kBroadcast, .ranks = 3});
  const LaneId root = b.lane(0, Need::kMove);
  const LaneId middle = b.lane(1, Need::kMove);
  const LaneId last = b.lane(2, Need::kMove);
  const int first_hop = b.channel(root, middle);
  const int second_hop = b.channel(middle, last);
  b.send(root, {input_block(0)}, first_hop);
  b.recv(middle, first_hop, {output_block(0)});
  b.send(middle, {output_block(0)}, second_hop);
  b.recv(last, second_hop, {output_block(0)});
  const Schedule loose = loosen(std::move(b).finish());
  EXPECT_TRUE(check_structure(loose).ok()) << check_structure(loose).message();
  ASSERT_EQ(loose.ranks[1].size(), 2U);
  EXPECT_EQ(loose.ranks[1][1].steps[0].after, (std::vector<StepRef>{{0, 0}}));
}

// The second message of a channel must not overtake the first.
TEST(Loosen, LeavesMessagesOfOneChannelInOrder) {
  Builder b("test", {.collective = Collective::kAllReduce, .ranks = 2, .cut = 2});
  const LaneId from = b.lane(0, Need::kMove);
  const LaneId to = b.lane(1, Need::kMove);
  const int channel = b.channel(from, to);
  for (const int block : {0, 1}) {
    b.send(from, {input_block(block)}, channel);
    b.recv(to, channel, {output_block(block)});
  }
  const Schedule schedule = std::move(b).finish();
  EXPECT_EQ(loosen(schedule), schedule);
}

}  // namespace
}  // namespace sennit
