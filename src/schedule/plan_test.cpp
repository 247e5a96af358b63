#include "schedule/plan.hpp"

#include "schedule/builder.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace sennit {
namespace {

Schedule small_schedule() {
  Builder b("small", {.collective = Collective::kAllReduce, .ranks = 2, .root = 0, .cut = 2});
  b.scratch("spare", 2, 2);
  const auto lanes = b.lane_on_every_rank(Need::kReduce);
  const int there = b.channel(lanes[0], lanes[1]);
  const int back = b.channel(lanes[1], lanes[0]);
  const StepRef sent = b.send(lanes[0], {input_block(0)}, there);
  b.recv(lanes[0], back, {output_block(0)});
  b.after(lanes[0], {sent});
  b.step(lanes[1],
         {.kind = StepKind::kRecvReduce,
          .from = {input_block(0)},
          .to = {output_block(0)},
          .in = {there},
          .order = {0, 1}});
  b.send(lanes[1], {output_block(0)}, back);
  return std::move(b).finish();
}

Plan plan_of(Schedule schedule, const std::vector<int>& shares = {1}) {
  const auto shared = std::make_shared<const Schedule>(std::move(schedule));
  Plan plan;
  for (const int share : shares) {
    plan.strands.push_back(bind(shared, PathKind::kShm, Protocol::kSlots, 2, Engine::kCpu));
    plan.strands.back().share = share;
  }
  return plan;
}

struct Change {
  std::string_view field;
  std::function<void(Schedule&)> schedule;
  std::function<void(Strand&)> strand;
};

Change of_schedule(std::string_view field, std::function<void(Schedule&)> change) {
  return {field, std::move(change), nullptr};
}

// Changes of what the proof depends on.
std::vector<Change> structural_changes() {
  const auto sum = [](Schedule& s) -> Step& { return s.ranks[1][0].steps[0]; };
  const auto second = [](Schedule& s) -> Step& { return s.ranks[0][0].steps[1]; };
  return {
      of_schedule("algorithm", [](Schedule& s) { s.algorithm = "other"; }),
      of_schedule("collective", [](Schedule& s) { s.problem.collective = Collective::kReduce; }),
      of_schedule("ranks", [](Schedule& s) { s.problem.ranks = 3; }),
      of_schedule("root", [](Schedule& s) { s.problem.root = 1; }),
      of_schedule("cut", [](Schedule& s) { s.problem.cut = 3; }),
      of_schedule("varying", [](Schedule& s) { s.problem.varying = true; }),
      of_schedule("scratch name", [](Schedule& s) { s.scratch[0].name = "store"; }),
      of_schedule("scratch blocks", [](Schedule& s) { s.scratch[0].blocks = 3; }),
      of_schedule("scratch depth", [](Schedule& s) { s.scratch[0].depth = 3; }),
      of_schedule("scratch place", [](Schedule& s) { s.scratch[0].place = Place::kHost; }),
      of_schedule("writer", [](Schedule& s) { s.channels[0].writer.lane = 1; }),
      of_schedule("reader", [](Schedule& s) { s.channels[0].readers[0].lane = 1; }),
      of_schedule("readers", [](Schedule& s) { s.channels[0].readers.push_back({2, 0}); }),
      of_schedule("single_hop", [](Schedule& s) { s.channels[0].single_hop = true; }),
      of_schedule("need", [](Schedule& s) { s.ranks[0][0].need = Need::kMove; }),
      of_schedule("kind", [=](Schedule& s) { sum(s).kind = StepKind::kRecv; }),
      of_schedule("from space", [=](Schedule& s) { sum(s).from[0].space = Space::kOutput; }),
      of_schedule("from index", [=](Schedule& s) { sum(s).from[0].index = 1; }),
      of_schedule("from scratch", [=](Schedule& s) { sum(s).from[0].scratch = 1; }),
      of_schedule("to", [=](Schedule& s) { sum(s).to.clear(); }),
      of_schedule("in", [=](Schedule& s) { sum(s).in = {1}; }),
      of_schedule("out", [=](Schedule& s) { sum(s).out = {1}; }),
      of_schedule("order", [=](Schedule& s) { sum(s).order = {1, 0}; }),
      of_schedule("pre", [=](Schedule& s) { sum(s).pre = true; }),
      of_schedule("post", [=](Schedule& s) { sum(s).post = true; }),
      of_schedule("after lane", [=](Schedule& s) { second(s).after[0].lane = 1; }),
      of_schedule("after step", [=](Schedule& s) { second(s).after[0].step = 1; }),
      of_schedule("step order",
                  [](Schedule& s) { std::swap(s.ranks[0][0].steps[0], s.ranks[0][0].steps[1]); }),
      of_schedule("empty lane", [](Schedule& s) { s.ranks[0].push_back({}); }),
      {"path", nullptr, [](Strand& s) { s.channels[0].paths = {PathKind::kCma}; }},
      {"bundle", nullptr, [](Strand& s) { s.channels[0].paths.emplace_back(PathKind::kCma); }},
      {"protocol", nullptr, [](Strand& s) { s.channels[0].protocol = Protocol::kDirectGet; }},
      {"slots", nullptr, [](Strand& s) { s.channels[1].slots = 3; }},
      {"chooser", nullptr, [](Strand& s) { s.channels[1].chooser = Chooser::kReader; }},
      {"codec", nullptr, [](Strand& s) { s.channels[1].codec = Codec::kQ8; }},
      {"home codec", nullptr, [](Strand& s) { s.home_codec = Codec::kQ8; }},
      {"engine", nullptr, [](Strand& s) { s.lanes[0][0].engine = Engine::kSm; }},
      {"burst", nullptr, [](Strand& s) { s.lanes[1][0].burst = 2; }},
  };
}

// Changes of what only the cutting of a message depends on.
std::vector<Change> cutting_changes() {
  return {
      {"tile_bytes", nullptr, [](Strand& s) { s.tile_bytes = 1; }},
      {"width", nullptr, [](Strand& s) { s.width = 2; }},
      {"share", nullptr, [](Strand& s) { s.share = 2; }},
  };
}

Plan changed(const Change& change) {
  Schedule schedule = small_schedule();
  if (change.schedule) {
    change.schedule(schedule);
  }
  Plan plan = plan_of(std::move(schedule));
  if (change.strand) {
    change.strand(plan.strands[0]);
  }
  return plan;
}

TEST(PlanHash, ChangesWithEveryField) {
  const Plan plan = plan_of(small_schedule());
  for (const Change& change : structural_changes()) {
    EXPECT_NE(structure_hash(changed(change)), structure_hash(plan)) << change.field;
    EXPECT_NE(plan_hash(changed(change)), plan_hash(plan)) << change.field;
    EXPECT_NE(changed(change), plan) << change.field;
  }
  for (const Change& change : cutting_changes()) {
    EXPECT_EQ(structure_hash(changed(change)), structure_hash(plan)) << change.field;
    EXPECT_NE(plan_hash(changed(change)), plan_hash(plan)) << change.field;
    EXPECT_NE(changed(change), plan) << change.field;
  }
  EXPECT_NE(plan_hash(plan_of(small_schedule(), {1, 1})), plan_hash(plan));
  Plan claimed = plan;
  claimed.division = Division::kClaimed;
  EXPECT_NE(structure_hash(claimed), structure_hash(plan));
  EXPECT_NE(plan_hash(claimed), plan_hash(plan));
}

TEST(PlanHash, IsTheSameForEqualPlans) {
  EXPECT_EQ(plan_hash(plan_of(small_schedule())), plan_hash(plan_of(small_schedule())));
  EXPECT_EQ(structure_hash(plan_of(small_schedule())), structure_hash(plan_of(small_schedule())));
}

TEST(StrandRange, StrandsCoverEachElementOnceOnAlignedBoundaries) {
  for (const std::vector<int>& shares : std::vector<std::vector<int>>{
           {1}, {1, 1}, {92, 8}, {0, 1}, {1, 0}, {3, 0, 4, 5}, {1, 1, 1, 1, 1, 1, 1}}) {
    const Plan plan = plan_of(small_schedule(), shares);
    for (const std::int64_t bytes : {1, 4, 8}) {
      for (const std::int64_t length : {0, 1, 31, 32, 100, 1000, 4096, 1'000'003}) {
        std::int64_t covered = 0;
        for (int s = 0; s < static_cast<int>(shares.size()); ++s) {
          const ElementRange range = strand_range(plan, s, length, bytes);
          ASSERT_EQ(range.begin, covered) << "strand " << s << " of " << length;
          ASSERT_GE(range.length, 0);
          if (range.length > 0) {
            ASSERT_EQ(range.begin * bytes % 128, 0);
          }
          if (shares[static_cast<std::size_t>(s)] == 0) {
            ASSERT_EQ(range.length, 0);
          }
          covered += range.length;
        }
        ASSERT_EQ(covered, length);
      }
    }
  }
}

TEST(StrandRange, FollowsTheShares) {
  const Plan plan = plan_of(small_schedule(), {3, 1});
  EXPECT_EQ(strand_range(plan, 0, 4096, 4).length, 3072);
  EXPECT_EQ(strand_range(plan, 1, 4096, 4).length, 1024);
}

TEST(CheckPlan, AcceptsABoundScheduleAndRejectsEachMalformedBinding) {
  EXPECT_TRUE(check_structure(plan_of(small_schedule())).ok());
  EXPECT_EQ(check_structure(Plan{}).code(), Code::kInvalidArgument);
  const std::vector<Change> malformed{
      {"no schedule", nullptr, [](Strand& s) { s.schedule = nullptr; }},
      {"channel missing", nullptr, [](Strand& s) { s.channels.pop_back(); }},
      {"rank missing", nullptr, [](Strand& s) { s.lanes.pop_back(); }},
      {"lane missing", nullptr, [](Strand& s) { s.lanes[1].clear(); }},
      {"burst", nullptr, [](Strand& s) { s.lanes[0][0].burst = 0; }},
      {"slots", nullptr, [](Strand& s) { s.channels[0].slots = 0; }},
      {"paths", nullptr, [](Strand& s) { s.channels[0].paths.clear(); }},
      {"tile_bytes", nullptr, [](Strand& s) { s.tile_bytes = 0; }},
      {"width", nullptr, [](Strand& s) { s.width = 0; }},
      {"negative share", nullptr, [](Strand& s) { s.share = -1; }},
      {"no share at all", nullptr, [](Strand& s) { s.share = 0; }},
      of_schedule("schedule", [](Schedule& s) { s.ranks[0][0].steps[0].out = {7}; }),
  };
  for (const Change& change : malformed) {
    EXPECT_EQ(check_structure(changed(change)).code(), Code::kInvalidArgument) << change.field;
  }
}

// A share is a part of every block: of different blocks it would leave gaps.
TEST(CheckPlan, StrandsSolveOneProblemAndCutItAlike) {
  Schedule other = small_schedule();
  other.algorithm = "other";
  Plan plan = plan_of(small_schedule());
  plan.strands.push_back(plan_of(other).strands[0]);
  EXPECT_TRUE(check_structure(plan).ok());
  other.problem.cut = 3;
  plan.strands[1] = plan_of(other).strands[0];
  EXPECT_NE(check_structure(plan).message().find("cuts the vector"), std::string::npos);
  other.problem.root = 1;
  plan.strands[1] = plan_of(other).strands[0];
  EXPECT_NE(check_structure(plan).message().find("another problem"), std::string::npos);
}

}  // namespace
}  // namespace sennit
