#include "schedule/scaling.hpp"

#include "algo/algorithm.hpp"
#include "schedule/builder.hpp"
#include "verify/verify.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace sennit {
namespace {

constexpr ScaledParts kContributions{.contributions = true, .sums = false};
constexpr ScaledParts kSums{.contributions = false, .sums = true};

Plan plan_of(Schedule schedule, Protocol protocol = Protocol::kSlots) {
  return {{bind(std::make_shared<const Schedule>(std::move(schedule)),
                PathKind::kShm,
                protocol,
                4,
                Engine::kCpu)}};
}

// Every algorithm that reduces, on 1 to 9 ranks, with the first and the last root.
void for_each_schedule(const std::function<void(const Schedule&)>& visit) {
  for (const Collective collective : kCollectives) {
    for (const Algorithm& algorithm : algorithms(collective)) {
      for (int ranks = 1; is_reduction(collective) && ranks <= 9; ++ranks) {
        for (const int root : {0, is_rooted(collective) ? ranks - 1 : 0}) {
          const Shape shape{.ranks = ranks, .root = root};
          if (!algorithm.refuses(shape).empty()) {
            continue;
          }
          SCOPED_TRACE(fmt::format(
              "{} {}, {} ranks, root {}", name(collective), algorithm.name, ranks, root));
          const auto schedule = make_schedule(algorithm, shape);
          ASSERT_TRUE(schedule.ok());
          visit(*schedule);
        }
      }
    }
  }
}

TEST(Scaling, OfEveryAlgorithmIsProvedAndChangesNothingElse) {
  int proved = 0;
  for_each_schedule([&](const Schedule& schedule) {
    const auto plain = verify(plan_of(schedule));
    ASSERT_TRUE(plain.ok());
    for (const ScaledParts& parts : {kContributions, kSums}) {
      const auto marked = mark_scaling(schedule, parts);
      ASSERT_TRUE(marked.ok()) << marked.status().message();
      const auto proof = verify(plan_of(*marked));
      ASSERT_TRUE(proof.ok()) << proof.status().message();
      EXPECT_EQ(proof->scaled, parts);
      EXPECT_EQ(proof->reproducible, plain->reproducible);
      EXPECT_EQ(proof->in_place, plain->in_place);
      ++proved;
    }
  });
  EXPECT_GT(proved, 200);
}

// One mark turned over: a contribution or a sum that is scaled twice, or not at all.
void expect_every_flip_is_caught(const Schedule& marked, bool Step::* mark) {
  for (std::size_t rank = 0; rank < marked.ranks.size(); ++rank) {
    for (std::size_t lane = 0; lane < marked.ranks[rank].size(); ++lane) {
      for (std::size_t index = 0; index < marked.ranks[rank][lane].steps.size(); ++index) {
        Schedule flipped = marked;
        Step& step = flipped.ranks[rank][lane].steps[index];
        if (mark == &Step::pre && !step.pre) {
          continue;  // reads no input, so the mark would mean nothing
        }
        step.*mark = !(step.*mark);
        const auto proof = verify(plan_of(flipped));
        EXPECT_FALSE(proof.ok()) << "rank " << rank << " lane " << lane << " step " << index;
      }
    }
  }
}

TEST(Scaling, EveryWrongMarkIsRefused) {
  for_each_schedule([&](const Schedule& schedule) {
    // Alone, a rank makes one step: without its mark nothing is scaled, which is no mistake.
    if (schedule.problem.ranks > 1 && schedule.problem.ranks <= 5) {
      expect_every_flip_is_caught(*mark_scaling(schedule, kContributions), &Step::pre);
    }
  });
  const auto ring = find_algorithm(Collective::kAllReduce, "ring");
  expect_every_flip_is_caught(*mark_scaling(*make_schedule(**ring, {.ranks = 4}), kSums),
                              &Step::post);
}

// Rank 1 sends its input, rank 0 stores it as it comes and reduces later.
Schedule reduce_by_way_of_scratch() {
  Builder b("stored", {.collective = Collective::kReduce, .ranks = 2});
  const auto lanes = b.lane_on_every_rank(Need::kReduce);
  const int stage = b.scratch("stage", 1, 1);
  const int channel = b.channel(lanes[1], lanes[0]);
  b.send(lanes[1], {input_block(0)}, channel);
  b.recv(lanes[0], channel, {scratch_block(stage, 0)});
  b.step(lanes[0],
         {.kind = StepKind::kReduce,
          .from = {input_block(0), scratch_block(stage, 0)},
          .to = {output_block(0)}});
  return std::move(b).finish();
}

TEST(Scaling, WhatASendScalesCannotBeFetchedFromWhereItLies) {
  const Schedule plain = reduce_by_way_of_scratch();
  EXPECT_TRUE(is_stored_whole(plain, 0));
  EXPECT_TRUE(verify(plan_of(plain, Protocol::kDirectGet)).ok());
  const auto marked = mark_scaling(plain, kContributions);
  ASSERT_TRUE(marked.ok());
  EXPECT_FALSE(is_stored_whole(*marked, 0));
  EXPECT_TRUE(verify(plan_of(*marked, Protocol::kSlots)).ok());
  EXPECT_FALSE(verify(plan_of(*marked, Protocol::kDirectGet)).ok());
}

TEST(Scaling, AStepThatCompletesSomeSumsOnlyIsRefused) {
  // Rank 0 adds two blocks in one step: to block 0 everything, to block 1 what rank 1 has.
  Builder b("uneven", {.collective = Collective::kReduce, .ranks = 3, .cut = 2});
  const auto lanes = b.lane_on_every_rank(Need::kReduce);
  const int both = b.channel(lanes[1], lanes[0]);
  const int rest = b.channel(lanes[2], lanes[0]);
  const int first = b.channel(lanes[2], lanes[1]);
  b.send(lanes[2], {input_block(0)}, first);
  const int sums = b.scratch("sums", 2, 1);
  b.recv_reduce(lanes[1], first, {input_block(0)}, {scratch_block(sums, 0)});
  b.send(lanes[1], {scratch_block(sums, 0), input_block(1)}, both);
  b.recv_reduce(
      lanes[0], both, {input_block(0), input_block(1)}, {output_block(0), output_block(1)});
  b.send(lanes[2], {input_block(1)}, rest);
  b.recv_reduce(lanes[0], rest, {output_block(1)}, {output_block(1)});
  const Schedule schedule = std::move(b).finish();
  EXPECT_TRUE(verify(plan_of(schedule)).ok());
  const auto marked = mark_scaling(schedule, kSums);
  EXPECT_EQ(marked.status().code(), Code::kUnsupported);
}

}  // namespace
}  // namespace sennit
