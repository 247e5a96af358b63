#include "exec/stream/slot_program.hpp"

#include "algo/algorithm.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sennit::stream {
namespace {

Schedule made(Collective collective, std::string_view algorithm, const Shape& shape) {
  const auto found = find_algorithm(collective, algorithm);
  EXPECT_TRUE(found.ok()) << found.status().message();
  auto schedule = make_schedule(*found.value(), shape);
  EXPECT_TRUE(schedule.ok()) << schedule.status().message();
  return std::move(schedule).value();
}

std::string refusal(Collective collective, std::string_view algorithm, int ranks) {
  return compile_slots(made(collective, algorithm, {.ranks = ranks}), 0).status().message();
}

TEST(SlotProgram, OfAHubPutsOnceWhatAllOthersTake) {
  const auto program = compile_slots(made(Collective::kAllGather, "hub", {.ranks = 4}), 1);
  ASSERT_TRUE(program.ok()) << program.status().message();
  ASSERT_EQ(program->puts.size(), 1U);
  EXPECT_EQ(program->puts[0].from, input_block(0));
  EXPECT_EQ(program->puts[0].readers.size(), 3U);
  ASSERT_EQ(program->takes.size(), 3U);
  EXPECT_EQ(program->takes[0].sender, 2);
  EXPECT_EQ(program->takes[0].to, output_block(2));
  EXPECT_EQ(program->rounds, 1);
  EXPECT_EQ(program->own_copies.size(), 1U);
  EXPECT_TRUE(program->may_be_in_place);
}

TEST(SlotProgram, OfABroadcastByHubIsThatOfTheRootAlone) {
  const Schedule schedule = made(Collective::kBroadcast, "hub", {.ranks = 4, .root = 2});
  const auto root = compile_slots(schedule, 2);
  ASSERT_TRUE(root.ok()) << root.status().message();
  EXPECT_EQ(root->puts.size(), 3U);
  EXPECT_TRUE(root->takes.empty());
  const auto other = compile_slots(schedule, 0);
  ASSERT_TRUE(other.ok()) << other.status().message();
  EXPECT_TRUE(other->puts.empty());
  ASSERT_EQ(other->takes.size(), 3U);
  EXPECT_EQ(other->takes[2].message, 2);
  EXPECT_EQ(other->takes[2].to, output_block(2));
  EXPECT_EQ(other->messages, (std::vector{0, 0, 3, 0}));
}

TEST(SlotProgram, OfAnAllToAllTakesOneMessageOfEachNumber) {
  const auto program = compile_slots(made(Collective::kAllToAll, "direct", {.ranks = 4}), 1);
  ASSERT_TRUE(program.ok()) << program.status().message();
  ASSERT_EQ(program->takes.size(), 3U);
  for (int message = 0; message < 3; ++message) {
    const Take& take = program->takes[static_cast<std::size_t>(message)];
    EXPECT_EQ(take.message, message);
    EXPECT_EQ(take.sender, (1 + 3 - message) % 4);
  }
  EXPECT_FALSE(program->may_be_in_place);
}

TEST(SlotProgram, RefusesWhatSlotsCannotCarry) {
  EXPECT_NE(refusal(Collective::kAllReduce, "one_shot", 4).find("reduces"), std::string::npos);
  EXPECT_NE(refusal(Collective::kBroadcast, "chain", 4).find("sends on"), std::string::npos);
  EXPECT_NE(refusal(Collective::kAllToAll, "bruck", 4).find("scratch"), std::string::npos);
  EXPECT_NE(refusal(Collective::kAllGather, "bruck", 4).find("one block"), std::string::npos);
  EXPECT_NE(refusal(Collective::kBarrier, "dissemination", 4).find("sends on"), std::string::npos);
  EXPECT_NE(refusal(Collective::kAllGather, "hub", 17).find("16 ranks"), std::string::npos);
}

TEST(SlotProgram, RefusesToWriteWhatIsSent) {
  Schedule schedule = made(Collective::kAllGather, "hub", {.ranks = 3});
  for (Lane& lane : schedule.ranks[1]) {
    for (Step& step : lane.steps) {
      step.to.assign(step.to.size(), output_block(0));  // all into one block
    }
  }
  const Status status = compile_slots(schedule, 1).status();
  EXPECT_NE(status.message().find("written in the same call"), std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace sennit::stream
