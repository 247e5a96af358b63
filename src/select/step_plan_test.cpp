// Plans for kernels that run schedules step by step: what becomes of the lanes, and that it is
// proved.
#include "base/testing/trials.hpp"
#include "schedule/text.hpp"
#include "select/device_choice.hpp"
#include "verify/testing/random_execution.hpp"
#include "verify/verify.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace sennit {
namespace {

using Groups = std::vector<std::vector<int>>;

constexpr int kSlots = 2;  // of every channel

const std::vector<Groups> kShapes = {{{0, 1}, {2, 3}},
                                     {{0, 2}, {1, 3}},
                                     {{0, 1, 2, 3}, {4, 5, 6, 7}},
                                     {{0, 1}, {2, 3}, {4, 5}},
                                     {{0, 1}, {2, 3}, {4, 5}, {6, 7}},
                                     {{0, 1, 2}, {3, 4}},
                                     {{0, 1, 2}, {3}},
                                     {{0}, {1}, {2}}};

Shape shape_of(const Groups& groups) {
  Shape shape{.ranks = 0, .groups = groups};
  for (const std::vector<int>& members : groups) {
    shape.ranks += static_cast<int>(members.size());
  }
  return shape;
}

Plan plan_of(const Algorithm& algorithm, const Shape& shape) {
  const DeviceChoice choice{
      .algorithm = &algorithm, .protocol = Protocol::kSlots, .by_steps = true};
  DeviceFacts facts;
  facts.reach = shape.groups.empty();
  facts.groups = shape.groups;
  return **make_device_plan(choice, shape, facts);
}

Plan plan_of(std::string_view algorithm, const Shape& shape) {
  return plan_of(**find_algorithm(Collective::kAllReduce, algorithm), shape);
}

// As the steps of a lane are printed.
std::vector<std::string> steps_of(const Schedule& schedule, int rank) {
  std::vector<std::string> lines;
  for (const Step& step : schedule.ranks[static_cast<std::size_t>(rank)].front().steps) {
    lines.push_back(to_text(schedule, step));
  }
  return lines;
}

// What a stage has summed goes on out of registers: no step reads it back only to send it.
TEST(StepPlan, StagesPassOnWhatTheySum) {
  const Shape shape = shape_of({{0, 1}, {2, 3}});
  const Plan led = plan_of("hierarchical", shape);
  EXPECT_EQ(steps_of(*led.strands.front().schedule, 0),
            (std::vector<std::string>{"recv_reduce input[0] + c2 -> partial[0], c0",
                                      "recv_reduce partial[0] + c1 -> output[0], c4  order 0, 1"}));
  const Plan sliced = plan_of("hierarchical_sliced", shape);
  EXPECT_EQ(steps_of(*sliced.strands.front().schedule, 0),
            (std::vector<std::string>{"send input[1] -> c0",
                                      "recv_reduce input[0] + c1 -> partial[0], c4  order 0, 1",
                                      "recv_reduce partial[0] + c5 -> output[0], c8  order 0, 1",
                                      "recv c9 -> output[1]"}));
}

TEST(StepPlan, ChannelsTakeThePathOfTheirGroups) {
  const Plan plan = plan_of("hierarchical_sliced", shape_of({{0, 1}, {2, 3}}));
  const Strand& strand = plan.strands.front();
  for (std::size_t c = 0; c < strand.channels.size(); ++c) {
    const Channel& channel = strand.schedule->channels[c];
    const bool same_pair = channel.writer.rank / 2 == channel.readers.front().rank / 2;
    EXPECT_EQ(strand.channels[c].paths,
              std::vector<Path>{same_pair ? PathKind::kNvlink : PathKind::kHost});
    EXPECT_EQ(strand.channels[c].slots, kSlots);
  }
}

// A step that sends as well waits for a free slot before it takes anything, so what is live in
// lanes of its own is not live for that reason. Nor may a longer wait stop tiles that follow.
void expect_proved(const Algorithm& algorithm, const Shape& shape) {
  const std::string what = fmt::format("{} of {} ranks", algorithm.name, shape.ranks);
  const Plan plan = plan_of(algorithm, shape);
  const Result<Proof> proof = verify(plan);
  ASSERT_TRUE(proof.ok()) << what << ": " << proof.status().message();
  EXPECT_TRUE(proof->in_place || !algorithm.in_place) << what << ": " << proof->why_not_in_place;
  constexpr int kTiles = 7;
  for (unsigned seed = 0; seed < trials(5U, 2U); ++seed) {
    verify_test::Random random(seed);
    EXPECT_TRUE(verify_test::Execution(plan.strands.front(), kTiles).run(random)) << what;
  }
}

TEST(StepPlan, IsProvedInGroupsOfAnyShape) {
  std::vector<Shape> shapes;
  std::ranges::transform(kShapes, std::back_inserter(shapes), shape_of);
  for (int ranks = 2; ranks <= trials(16, 9); ++ranks) {
    shapes.push_back({.ranks = ranks});
  }
  for (const Collective collective : kCollectives) {
    for (const Algorithm& algorithm : algorithms(collective)) {
      for (const Shape& shape : shapes) {
        if (collective != Collective::kSendRecv && algorithm.refuses(shape).empty()) {
          expect_proved(algorithm, shape);
        }
      }
    }
  }
}

// The expression of every output is that of the lanes: no reduction was split or joined.
TEST(StepPlan, ReducesAsTheLanesDo) {
  for (const Groups& groups : kShapes) {
    const Shape shape = shape_of(groups);
    for (const std::string_view name : {"hierarchical", "hierarchical_sliced"}) {
      Plan both = plan_of(name, shape);
      const Algorithm& algorithm = **find_algorithm(Collective::kAllReduce, name);
      both.strands.push_back(
          bind(std::make_shared<const Schedule>(*make_schedule(algorithm, shape)),
               PathKind::kHost,
               Protocol::kSlots,
               kSlots,
               Engine::kSm));
      // Grains may go to either strand only where both compute the same trees.
      both.division = Division::kClaimed;
      const Result<Proof> proof = verify(both);
      EXPECT_TRUE(proof.ok()) << name << ": " << proof.status().message();
    }
  }
}

}  // namespace
}  // namespace sennit
