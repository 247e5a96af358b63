#include "schedule/known_lengths.hpp"

#include "schedule/builder.hpp"
#include "schedule/json_form.hpp"
#include "schedule/text.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sennit {
namespace {

// Rank 0 sends its block to rank 1, which passes it on to rank 2.
Schedule relay(Collective collective, bool kept) {
  Builder b("relay", {.collective = collective, .ranks = 3, .root = 2});
  const auto lanes = b.lane_on_every_rank(Need::kMove);
  const int first = b.single_hop_channel(lanes[0], lanes[1]);
  const int second = b.single_hop_channel(lanes[1], lanes[2]);
  b.send(lanes[0], {input_block(0)}, first);
  Step relayed{.kind = StepKind::kRecv, .in = {first}, .out = {second}};
  if (kept) {
    relayed.to = {output_block(0)};
  }
  b.step(lanes[1], std::move(relayed));
  b.recv(lanes[2], second, {output_block(0)});
  Schedule schedule = std::move(b).finish();
  schedule.problem.varying = true;
  return schedule;
}

void expect_refused(const Schedule& schedule, const std::string& why) {
  const Status status = check_known_lengths(schedule);
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find(why), std::string::npos) << status.message();
}

TEST(KnownLengths, EveryRankOfAnAllGatherKnowsAllOfThem) {
  Schedule schedule = relay(Collective::kAllGather, /*kept=*/true);
  EXPECT_TRUE(check_known_lengths(schedule).ok());
  for (Channel& channel : schedule.channels) {
    channel.single_hop = false;
  }
  EXPECT_TRUE(check_known_lengths(schedule).ok());
}

TEST(KnownLengths, ElsewhereAChannelMustBeSingleHop) {
  Schedule schedule = relay(Collective::kAllToAll, /*kept=*/true);
  EXPECT_TRUE(check_known_lengths(schedule).ok());
  schedule.channels[1].single_hop = false;
  expect_refused(schedule, "channel 1, written by rank 1, carries blocks that do not go straight");
}

TEST(KnownLengths, AreNotThoseOfMessagesThatOnlyPassThrough) {
  expect_refused(relay(Collective::kAllGather, /*kept=*/false),
                 "rank 1 passes on messages without keeping them");
}

TEST(KnownLengths, AreNotThoseOfScratch) {
  Schedule schedule = relay(Collective::kAllGather, /*kept=*/true);
  schedule.scratch.push_back({.name = "stage"});
  schedule.ranks[1][0].steps[0].to = {scratch_block(0, 0)};
  expect_refused(schedule, "rank 1 keeps blocks of other ranks in scratch");
}

TEST(KnownLengths, OnlyCollectivesThatMovePartsAsTheyAreHaveAVaryingForm) {
  Builder b("one", {.collective = Collective::kAllReduce, .ranks = 1});
  b.copy(b.lane(0, Need::kMove), {input_block(0)}, {output_block(0)});
  Schedule schedule = std::move(b).finish();
  EXPECT_TRUE(check_structure(schedule).ok());
  schedule.problem.varying = true;
  EXPECT_FALSE(check_structure(schedule).ok());
}

TEST(KnownLengths, VaryingIsPrintedAndReadAgain) {
  const Schedule schedule = relay(Collective::kAllGather, /*kept=*/true);
  EXPECT_TRUE(
      to_text(schedule).starts_with("schedule all_gather relay ranks=3 root=2 cut=1 varying\n"));
  EXPECT_EQ(schedule_from_text(to_text(schedule), "t").value(), schedule);
  EXPECT_EQ(schedule_from_json(dump_json(to_json(schedule)), "j").value(), schedule);
}

}  // namespace
}  // namespace sennit
