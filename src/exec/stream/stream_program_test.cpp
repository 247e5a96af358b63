#include "exec/stream/stream_program.hpp"

#include "algo/algorithm.hpp"
#include "schedule/passes.hpp"
#include "schedule/plan.hpp"
#include "verify/verify.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sennit::stream {
namespace {

Schedule made(Collective collective, std::string_view algorithm, const Shape& shape) {
  const auto found = find_algorithm(collective, algorithm);
  EXPECT_TRUE(found.ok()) << found.status().message();
  auto schedule = make_schedule(*found.value(), shape);
  EXPECT_TRUE(schedule.ok()) << schedule.status().message();
  return std::move(schedule).value();
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string refusal(Collective collective, std::string_view algorithm, int ranks) {
  return compile_stream(made(collective, algorithm, {.ranks = ranks}), 0).status().message();
}

TEST(StreamProgram, OfAnAllGatherPutsTheInputIntoAllOutputsTheNextRankFirst) {
  const auto program = compile_stream(made(Collective::kAllGather, "direct", {.ranks = 4}), 1);
  ASSERT_TRUE(program.ok()) << program.status().message();
  ASSERT_EQ(program->departures.size(), 3U);
  for (int distance = 1; distance < 4; ++distance) {
    const Departure& departure = program->departures[static_cast<std::size_t>(distance - 1)];
    EXPECT_EQ(departure.reader, (1 + distance) % 4);
    EXPECT_EQ(departure.from, input_block(0));
    EXPECT_EQ(departure.to, output_block(1));
  }
  ASSERT_EQ(program->arrivals.size(), 3U);
  EXPECT_EQ(program->arrivals[0].sender, 0);
  EXPECT_EQ(program->arrivals[0].from, input_block(0));
  EXPECT_EQ(program->arrivals[0].to, output_block(0));
  ASSERT_EQ(program->copies.size(), 1U);
  EXPECT_FALSE(program->is_staged());
  EXPECT_TRUE(program->may_be_in_place);
}

TEST(StreamProgram, OfAnAllToAllIsNotForCallsInPlace) {
  const auto program = compile_stream(made(Collective::kAllToAll, "direct", {.ranks = 3}), 0);
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_FALSE(program->may_be_in_place);
}

TEST(StreamProgram, OfATwoShotAllReduceReducesItsSliceInTheOrderOfRanksAndPassesItOn) {
  const auto program = compile_stream(made(Collective::kAllReduce, "two_shot", {.ranks = 4}), 2);
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_TRUE(program->is_staged());
  ASSERT_EQ(program->departures.size(), 3U);
  EXPECT_EQ(program->departures[0].reader, 3);
  EXPECT_EQ(program->departures[0].from, input_block(3));
  EXPECT_FALSE(program->departures[0].to.has_value());
  ASSERT_EQ(program->reductions.size(), 1U);
  const Reduction& reduction = program->reductions.front();
  EXPECT_EQ(reduction.to, output_block(2));
  ASSERT_EQ(reduction.operands.size(), 4U);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(reduction.operands[static_cast<std::size_t>(rank)].sender, rank);
    EXPECT_EQ(reduction.operands[static_cast<std::size_t>(rank)].from, input_block(2));
  }
  ASSERT_EQ(reduction.passes_on.size(), 3U);
  EXPECT_EQ(reduction.passes_on[0].reader, 3);
  EXPECT_EQ(reduction.passes_on[0].to, output_block(2));
  EXPECT_TRUE(reduction.passes_on[0].is_admitted) << "its contribution has come";
  EXPECT_FALSE(program->departures[0].is_admitted);
  ASSERT_EQ(program->arrivals.size(), 3U);
  EXPECT_TRUE(program->arrivals[0].is_admitted);
  EXPECT_EQ(program->arrivals[0].from.space, Space::kOutput);
}

// A rank's input is overwritten by sums of those who have had it before.
TEST(StreamProgram, OfATwoShotAllReduceMayBeInPlace) {
  for (const int ranks : {1, 2, 3, 8}) {
    const auto program =
        compile_stream(made(Collective::kAllReduce, "two_shot", {.ranks = ranks}), ranks - 1);
    ASSERT_TRUE(program.ok()) << program.status().message();
    EXPECT_TRUE(program->may_be_in_place) << ranks;
  }
}

// The others may still be reading the vector that the own sum would overwrite.
TEST(StreamProgram, OfAOneShotAllReduceMayNotBeInPlace) {
  const auto program = compile_stream(made(Collective::kAllReduce, "one_shot", {.ranks = 3}), 0);
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_FALSE(program->may_be_in_place);
}

TEST(StreamProgram, OfReductionsToOneRankMayBeInPlace) {
  for (const Collective collective : {Collective::kReduce, Collective::kReduceScatter}) {
    for (int rank = 0; rank < 4; ++rank) {
      const auto program =
          compile_stream(made(collective, "direct", {.ranks = 4, .root = 1}), rank);
      ASSERT_TRUE(program.ok()) << program.status().message();
      EXPECT_TRUE(program->may_be_in_place);
      EXPECT_EQ(program->reductions.size(),
                collective == Collective::kReduce && rank != 1 ? 0U : 1U);
    }
  }
}

// What this compiler finds out of one rank is what the verifier finds out of all of them.
TEST(StreamProgram, MayBeInPlaceWhereTheProofSaysSo) {
  for (const auto& [collective, algorithm] : {std::pair(Collective::kAllReduce, "two_shot"),
                                              std::pair(Collective::kAllReduce, "one_shot"),
                                              std::pair(Collective::kReduceScatter, "direct"),
                                              std::pair(Collective::kReduce, "direct"),
                                              std::pair(Collective::kAllGather, "direct"),
                                              std::pair(Collective::kAllToAll, "direct"),
                                              std::pair(Collective::kBroadcast, "direct")}) {
    const Schedule schedule = loosen(made(collective, algorithm, {.ranks = 4}));
    Plan plan;
    plan.strands.push_back(bind(std::make_shared<const Schedule>(schedule),
                                PathKind::kNvlink,
                                Protocol::kDirectPut,
                                2,
                                Engine::kStream));
    for (std::size_t c = 0; c < schedule.channels.size(); ++c) {
      if (!is_stored_whole(schedule, static_cast<int>(c))) {
        plan.strands[0].channels[c].protocol = Protocol::kSlots;  // its staging memory
      }
    }
    const auto proof = verify(plan);
    ASSERT_TRUE(proof.ok()) << algorithm << ": " << proof.status().message();
    bool all = true;
    for (int rank = 0; rank < 4; ++rank) {
      const auto program = compile_stream(schedule, rank);
      ASSERT_TRUE(program.ok()) << program.status().message();
      all = all && program->may_be_in_place;
    }
    EXPECT_EQ(all, proof->in_place) << algorithm << ": " << proof->why_not_in_place;
  }
}

// In place, a result that comes from somebody else than the reader of the block that it overwrites
// may come too early.
TEST(StreamProgram, MayNotBeInPlaceWhereASumComesFromAnotherThanTheReader) {
  Schedule schedule = made(Collective::kAllReduce, "two_shot", {.ranks = 3});
  for (Lane& lane : schedule.ranks[0]) {
    for (Step& step : lane.steps) {
      if (step.kind == StepKind::kRecv) {
        step.to = {step.to.front() == output_block(1) ? output_block(2) : output_block(1)};
      }
    }
  }
  const auto program = compile_stream(schedule, 0);
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_FALSE(program->may_be_in_place);
}

TEST(StreamProgram, RefusesWhatCopyEnginesCannotDo) {
  EXPECT_NE(refusal(Collective::kReduce, "chain", 4).find("passed on"), std::string::npos);
  EXPECT_NE(refusal(Collective::kAllGather, "ring", 8).find("messages"), std::string::npos);
  EXPECT_NE(refusal(Collective::kBarrier, "dissemination", 4).find("without data"),
            std::string::npos);
  EXPECT_NE(refusal(Collective::kAllGather, "direct", 17).find("16 ranks"), std::string::npos);
  EXPECT_NE(refusal(Collective::kAllToAll, "bruck", 4).find("scratch"), std::string::npos);
}

// Every rank refuses, whichever of them would have to pass something on, and says what does it.
TEST(StreamProgram, RefusesToPassOnWhatArrives) {
  for (const char* const algorithm : {"scatter_forward", "chain"}) {
    const Schedule schedule = made(Collective::kBroadcast, algorithm, {.ranks = 4});
    bool is_refused = false;
    for (int rank = 0; rank < 4; ++rank) {
      const Status status = compile_stream(schedule, rank).status();
      is_refused = is_refused || !status.ok();
      EXPECT_TRUE(status.ok() ||
                  contains(status.message(), "passes on what arrives, which kernels"))
          << status.message();
    }
    EXPECT_TRUE(is_refused) << algorithm;
  }
  EXPECT_TRUE(compile_stream(made(Collective::kBroadcast, "scatter_forward", {.ranks = 2}), 1).ok())
      << "nobody passes anything on";
}

TEST(StreamProgram, RefusesToWriteWhatOthersRead) {
  Schedule schedule = made(Collective::kAllReduce, "two_shot", {.ranks = 4});
  // Rank 2 stores all sums of others over its own, which it passes on.
  for (Lane& lane : schedule.ranks[2]) {
    for (Step& step : lane.steps) {
      if (step.kind == StepKind::kRecv) {
        step.to = {output_block(2)};
      }
    }
  }
  const Status status = compile_stream(schedule, 2).status();
  EXPECT_TRUE(contains(status.message(), "written again")) << status.message();
}

}  // namespace
}  // namespace sennit::stream
