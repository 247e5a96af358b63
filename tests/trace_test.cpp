// The proved object is the executed object: jobs of the cpu engine run on threads, and every step
// they record must respect the graph that the proof is about.
#include "threaded_run.hpp"
#include "trace_replay.hpp"

#include "algo/algorithm.hpp"
#include "verify/graph.hpp"
#include "verify/verify.hpp"

#include <gtest/gtest.h>

#include <map>

namespace sennit {
namespace {

// ---- Plans ----

struct Binding {
  std::uint32_t slots = 2;
  int width = 1;
  int burst = 1;
  bool direct = false;
};

Strand strand_of(Collective collective, std::string_view algorithm, const Shape& shape, Binding b) {
  auto schedule = make_schedule(*find_algorithm(collective, algorithm).value(), shape);
  Strand strand = bind(std::make_shared<const Schedule>(std::move(schedule).value()),
                       b.direct ? PathKind::kCma : PathKind::kShm,
                       b.direct ? Protocol::kDirectGet : Protocol::kSlots,
                       static_cast<int>(b.slots),
                       Engine::kCpu);
  strand.tile_bytes = 128;
  strand.width = b.width;
  for (auto& lanes : strand.lanes) {
    for (LaneBinding& lane : lanes) {
      lane.burst = b.burst;
    }
  }
  return strand;
}

Made made(Collective collective, std::string_view algorithm, const Shape& shape, Binding b) {
  auto plan = std::make_shared<Plan>();
  plan->strands.push_back(strand_of(collective, algorithm, shape, b));
  return {.name = fmt::format("{} {}, {} ranks, {} slots, width {}, burst {}{}",
                              name(collective),
                              algorithm,
                              shape.ranks,
                              b.slots,
                              b.width,
                              b.burst,
                              b.direct ? ", direct" : ""),
          .plan = std::move(plan),
          .slots = b.slots};
}

// One third of every block over a ring, the rest over another algorithm.
Made two_strands() {
  auto plan = std::make_shared<Plan>();
  const Shape shape{.ranks = 4};
  plan->strands.push_back(strand_of(Collective::kAllReduce, "ring", shape, {.slots = 4}));
  plan->strands.push_back(
      strand_of(Collective::kAllReduce, "two_shot", shape, {.slots = 4, .width = 2}));
  plan->strands.back().share = 2;
  return {.name = "two strands", .plan = std::move(plan), .slots = 4};
}

// Neighbours on a chain that treat 1, 2 and 4 tiles as one unit, or 4, 2 and 1.
Made mixed_bursts(bool growing) {
  Strand strand =
      strand_of(Collective::kBroadcast, "chain", {.ranks = 3}, {.slots = 8, .width = 2});
  for (int rank = 0; rank < 3; ++rank) {
    for (LaneBinding& lane : strand.lanes[static_cast<std::size_t>(rank)]) {
      lane.burst = 1 << (growing ? rank : 2 - rank);
    }
  }
  auto plan = std::make_shared<Plan>();
  plan->strands.push_back(std::move(strand));
  return {.name = growing ? "bursts that grow" : "bursts that shrink",
          .plan = std::move(plan),
          .slots = 8};
}

std::vector<Made> plans() {
  return {
      made(Collective::kAllReduce, "ring", {.ranks = 4}, {.slots = 2}),
      made(Collective::kAllReduce, "ring", {.ranks = 3}, {.slots = 24, .burst = 2}),
      made(Collective::kAllReduce, "two_shot", {.ranks = 3}, {.slots = 4, .width = 2}),
      made(Collective::kAllReduce, "recursive_doubling", {.ranks = 5}, {.slots = 3}),
      made(Collective::kAllReduce, "one_shot", {.ranks = 4}, {.slots = 4, .burst = 4}),
      made(Collective::kReduce, "k_nomial", {.ranks = 8, .root = 3}, {.width = 3}),
      made(Collective::kBroadcast, "chain", {.ranks = 4, .root = 1}, {.width = 3}),
      made(Collective::kBroadcast, "chain", {.ranks = 4}, {.slots = 8, .burst = 4}),
      made(Collective::kBroadcast, "k_nomial", {.ranks = 8}, {.width = 2, .direct = true}),
      made(Collective::kAllToAll, "direct", {.ranks = 4}, {.slots = 3, .direct = true}),
      made(Collective::kAllToAll, "pairwise", {.ranks = 5}, {.slots = 2}),
      made(Collective::kGather, "binomial", {.ranks = 8, .root = 2}, {.slots = 3, .width = 2}),
      made(Collective::kScatter, "binomial", {.ranks = 8}, {.slots = 2}),
      made(Collective::kScatter, "binomial", {.ranks = 5}, {.slots = 2, .direct = true}),
      made(Collective::kBarrier, "dissemination", {.ranks = 5}, {.slots = 2}),
      two_strands(),
      mixed_bursts(/*growing=*/true),
      mixed_bursts(/*growing=*/false),
  };
}

// ---- The claims ----

constexpr std::int64_t kCount = 16 * 4 * 9 + 5;  // nine tiles in each of four blocks, and a rest

TEST(Trace, DataIsRightAndEveryStepRespectsTheProofsGraph) {
  for (const Made& made : plans()) {
    SCOPED_TRACE(made.name);
    const auto proof = verify(*made.plan);
    ASSERT_TRUE(proof.ok()) << proof.status().message();
    const Problem& problem = made.plan->problem();
    const std::int64_t count = problem.collective == Collective::kBarrier ? 0 : kCount;
    Runner runner(made, count);
    for (int call = 0; call < 3; ++call) {
      const Execution run = runner.run(*proof);
      ASSERT_EQ(run.defect, "");
      EXPECT_EQ(find_wrong_output(problem, count, run), "");
      EXPECT_EQ(find_defect_of_trace(*made.plan, run), "");
    }
  }
}

// Rows whose every call of one tile is simple; the others have scratch.
std::vector<Made> plans_of_one_tile() {
  std::vector<Made> all;
  for (const Collective collective : kCollectives) {
    for (const Algorithm& algorithm : algorithms(collective)) {
      for (const int ranks : {2, 3, 5}) {
        const Shape shape{.ranks = collective == Collective::kSendRecv ? 2 : ranks};
        if (!algorithm.refuses(shape).empty() ||
            !make_schedule(algorithm, shape).value().scratch.empty()) {
          continue;
        }
        all.push_back(made(collective, algorithm.name, shape, {.slots = 4}));
      }
    }
  }
  return all;
}

TEST(Trace, SingleTilesDoTheStepsOfTheirScheduleAndMayGoOnAsJobs) {
  int tried = 0;
  for (const Made& made : plans_of_one_tile()) {
    const auto proof = verify(*made.plan);
    ASSERT_TRUE(proof.ok()) << proof.status().message();
    const Problem& problem = made.plan->problem();
    const std::int64_t count = problem.collective == Collective::kBarrier ? 0 : 13;
    for (const int rounds : {1, 100'000'000}) {
      SCOPED_TRACE(fmt::format("{}, {} idle rounds", made.name, rounds));
      Runner runner(made, count);
      runner.begin_as_single_tile(rounds);
      for (int call = 0; call < 6; ++call) {
        const Execution run = runner.run(*proof);
        ASSERT_EQ(run.defect, "");
        EXPECT_EQ(find_wrong_output(problem, count, run), "");
        EXPECT_EQ(find_defect_of_trace(*made.plan, run), "");
      }
      ++tried;
    }
  }
  EXPECT_GT(tried, 100);
}

TEST(Trace, CallsOfSeveralTilesAreNotSingleTiles) {
  const Made made = plans().front();
  const auto proof = verify(*made.plan);
  ASSERT_TRUE(proof.ok()) << proof.status().message();
  Runner runner(made, kCount);
  runner.begin_as_single_tile(1);
  EXPECT_EQ(runner.run(*proof).defect, "not resolved. not resolved. not resolved. not resolved. ");
}

// Exchanges the times of both ends of one edge of each kind, and wants it to be seen.
TEST(Trace, ExchangedEventsAreFound) {
  std::map<EdgeKind, int> caught;
  for (const Made& made : plans()) {
    SCOPED_TRACE(made.name);
    const Plan& plan = *made.plan;
    const auto proof = verify(plan);
    ASSERT_TRUE(proof.ok()) << proof.status().message();
    const Execution run = Runner(made, plan.problem().cut == 0 ? 0 : kCount).run(*proof);
    const FlatStrand flat(plan.strands.front());
    const Graph graph = Graph::build(flat).value();
    const std::vector<Edge> edges = edges_between_steps(graph);
    std::map<EdgeKind, int> tried;
    for (const Edge& edge : edges) {
      Replay replay(graph, run.events, 0, 0);
      Replay::Span* before = replay.find(edge.from, 0);
      Replay::Span* after = replay.find(edge.to, edge.delay);
      if (before != nullptr && after != nullptr && before != after && ++tried[edge.kind] <= 3) {
        std::swap(*before, *after);
        EXPECT_NE(replay.find_violation(edges), nullptr) << describe(flat, graph, edge);
        ++caught[edge.kind];
      }
    }
  }
  for (const EdgeKind kind : {EdgeKind::kOrder,
                              EdgeKind::kAfter,
                              EdgeKind::kScratch,
                              EdgeKind::kMessage,
                              EdgeKind::kCredit,
                              EdgeKind::kRelease}) {
    EXPECT_GT(caught[kind], 0) << static_cast<int>(kind);
  }
}

}  // namespace
}  // namespace sennit
