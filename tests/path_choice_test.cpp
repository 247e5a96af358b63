// Choices between paths at run time: whatever is chosen, the data are right and the trace is legal;
// and what is chosen follows from what the paths do.
#include "threaded_run.hpp"
#include "trace_replay.hpp"

#include "algo/algorithm.hpp"
#include "verify/verify.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace sennit {
namespace {

using Event = TraceMessage::Event;

constexpr std::int64_t kTileElements = 16;
constexpr int kSlots = 2;

struct Request {
  bool rank_0_chooses = false;  // the paths of what is sent to it
  int width = 1;
};

bool is_read_by_rank_0(const Schedule& schedule, std::size_t channel) {
  const std::vector<LaneId>& readers = schedule.channels[channel].readers;
  return readers.size() == 1 && readers.front().rank == 0;
}

// Every channel whose messages are stored whole is a bundle, where the proof holds with it.
std::optional<Made> bundled(const Algorithm& algorithm,
                            const Shape& shape,
                            const Request& request = {}) {
  const auto schedule = std::make_shared<const Schedule>(make_schedule(algorithm, shape).value());
  Strand strand = sennit::bind(schedule, PathKind::kShm, Protocol::kSlots, kSlots, Engine::kCpu);
  strand.tile_bytes = kTileElements * static_cast<std::int64_t>(sizeof(std::int64_t));
  strand.width = request.width;
  bool any = false;
  for (std::size_t c = 0; c < strand.channels.size(); ++c) {
    if (is_stored_whole(*schedule, static_cast<int>(c))) {
      strand.channels[c] = {.paths = {PathKind::kShm, PathKind::kCma},
                            .protocol = Protocol::kDirectGet,
                            .slots = kSlots,
                            .chooser = request.rank_0_chooses && is_read_by_rank_0(*schedule, c)
                                           ? Chooser::kReader
                                           : Chooser::kSender};
      any = true;
    }
  }
  auto plan = std::make_shared<Plan>();
  plan->strands.push_back(std::move(strand));
  if (!any || !verify(*plan).ok()) {
    return std::nullopt;
  }
  return Made{.name = fmt::format("{} {}, {} ranks, root {}",
                                  name(algorithm.collective),
                                  algorithm.name,
                                  shape.ranks,
                                  shape.root),
              .plan = std::move(plan),
              .slots = kSlots};
}

Made bundled(Collective collective, std::string_view name, int ranks, const Request& request = {}) {
  Shape shape;
  shape.ranks = ranks;
  return bundled(*find_algorithm(collective, name).value(), shape, request).value();
}

// Two runs of the same plan: the second finds the rings where the first one left them.
void expect_right(Runner& runner, const Made& made, std::int64_t count) {
  const Proof proof = verify(*made.plan).value();
  for (int call = 0; call < 2; ++call) {
    const Execution run = runner.run(proof);
    ASSERT_EQ(run.defect, "");
    EXPECT_EQ(find_wrong_output(made.plan->problem(), count, run), "");
    EXPECT_EQ(find_defect_of_trace(*made.plan, run), "");
  }
}

std::int64_t messages(const Execution& run, int path, Event event = Event::kSent) {
  return std::ranges::count_if(run.messages, [&](const TraceMessage& message) {
    return message.path == path && message.event == event;
  });
}

// ---- Bundles ----

// How many policies ran it, each with the right result.
int run_every_policy(const Made& made, std::int64_t count) {
  SCOPED_TRACE(made.name);
  Runner runner(made, count);
  int ran = 0;
  for (const PathPolicy& policy : {PathPolicy{},
                                   PathPolicy{.rule = PathRule::kFixed, .path = 1},
                                   PathPolicy{.rule = PathRule::kRoundRobin},
                                   PathPolicy{.rule = PathRule::kRandom, .seed = 1},
                                   PathPolicy{.rule = PathRule::kRandom, .seed = 2}}) {
    runner.set_policy(policy);
    expect_right(runner, made, count);
    ++ran;
  }
  return ran;
}

TEST(PathChoice, EveryPolicyCarriesEveryAlgorithm) {
  constexpr std::int64_t kCount = kTileElements * 4 * 5 + 3;
  int ran = 0;
  for (const Collective collective : kCollectives) {
    for (const Algorithm& algorithm : algorithms(collective)) {
      for (const int ranks : {2, 3, 5}) {
        Shape shape;
        shape.ranks = ranks;
        shape.root = is_rooted(collective) ? ranks - 1 : 0;
        if (collective == Collective::kSendRecv && ranks != 2) {
          continue;
        }
        const auto made =
            algorithm.refuses(shape).empty() ? bundled(algorithm, shape) : std::nullopt;
        ran += made ? run_every_policy(*made, kCount) : 0;
      }
    }
  }
  EXPECT_GT(ran, 100);
}

TEST(PathChoice, AFixedPolicyTakesItsPathOnly) {
  const Made made = bundled(Collective::kAllGather, "direct", 3);
  for (const int path : {0, 1}) {
    Runner runner(made, 100);
    runner.set_policy({.rule = PathRule::kFixed, .path = path});
    const Execution run = runner.run(verify(*made.plan).value());
    EXPECT_GT(messages(run, path), 0);
    EXPECT_EQ(messages(run, 1 - path), 0);
  }
}

// Copies of the lanes run side by side, so a rank has messages on both paths at once and sees on
// which of them they stay. On a busy machine the fast path may take each before the next comes; the
// slow path gets none then.
TEST(PathChoice, ASlowPathGetsFewerMessages) {
  constexpr std::int64_t kCount = kTileElements * 24;
  const Made made = bundled(Collective::kBroadcast, "direct", 4, {.width = 4});
  for (const int slow : {0, 1}) {
    SCOPED_TRACE(slow);
    Runner runner(made, kCount);
    runner.set_slow_path(
        {.path = made.plan->strands[0].channels[0].paths[static_cast<std::size_t>(slow)].kind,
         .delay = std::chrono::milliseconds(400)});
    const Execution run = runner.run(verify(*made.plan).value());
    ASSERT_EQ(run.defect, "");
    EXPECT_EQ(find_wrong_output(made.plan->problem(), kCount, run), "");
    EXPECT_EQ(find_defect_of_trace(*made.plan, run), "");
    EXPECT_LT(messages(run, slow), messages(run, 1 - slow));
  }
}

// ---- The reader chooses, by the Dynamic rule ----

TEST(PathChoice, AReaderThatChoosesGetsEverythingOnce) {
  constexpr std::int64_t kCount = kTileElements * 9 + 1;
  for (const int ranks : {2, 3, 4, 6}) {
    for (const auto& [collective, name] : {std::pair(Collective::kGather, "direct"),
                                           std::pair(Collective::kAllGather, "direct"),
                                           std::pair(Collective::kAllReduce, "shared_buffer")}) {
      const Made made = bundled(collective, name, ranks, {.rank_0_chooses = true});
      SCOPED_TRACE(made.name);
      Runner runner(made, kCount);
      expect_right(runner, made, kCount);
    }
  }
}

// Of the two members one gets each path, and the one on the slow path sends again. What rank 0
// sends back in the all_reduce takes the other path, too, since the slow one had nothing to show.
TEST(PathChoice, ALateLastCopyIsSentAgain) {
  for (const auto& [collective, name] : {std::pair(Collective::kGather, "direct"),
                                         std::pair(Collective::kAllReduce, "shared_buffer")}) {
    const Made made = bundled(collective, name, 3, {.rank_0_chooses = true});
    const Proof proof = verify(*made.plan).value();
    for (const int slow : {0, 1}) {
      SCOPED_TRACE(fmt::format("{}, slow path {}", made.name, slow));
      Runner runner(made, kTileElements);  // one copy a member
      runner.set_slow_path({.path = slow == 0 ? PathKind::kShm : PathKind::kCma,
                            .delay = std::chrono::milliseconds(150)});
      for (int call = 0; call < 2; ++call) {
        const Execution run = runner.run(proof);
        ASSERT_EQ(run.defect, "");
        EXPECT_EQ(find_wrong_output(made.plan->problem(), kTileElements, run), "");
        EXPECT_EQ(find_defect_of_trace(*made.plan, run), "");
        EXPECT_EQ(messages(run, 1 - slow, Event::kSentAgain), 1);
        EXPECT_EQ(messages(run, slow, Event::kLate), 1);
        EXPECT_EQ(messages(run, slow, Event::kTaken), 0);
        EXPECT_EQ(messages(run, 1 - slow, Event::kTaken),
                  collective == Collective::kGather ? 2 : 4);
      }
    }
  }
}

TEST(PathChoice, ASlowPathGetsFewerCopiesFromTheDynamicRule) {
  constexpr std::int64_t kCount = kTileElements * 24;
  const Made made = bundled(Collective::kGather, "direct", 5, {.rank_0_chooses = true});
  Runner runner(made, kCount);
  runner.set_slow_path({.path = PathKind::kShm, .delay = std::chrono::milliseconds(150)});
  const Execution run = runner.run(verify(*made.plan).value());
  ASSERT_EQ(run.defect, "");
  EXPECT_EQ(find_wrong_output(made.plan->problem(), kCount, run), "");
  EXPECT_EQ(find_defect_of_trace(*made.plan, run), "");
  EXPECT_LT(messages(run, 0), messages(run, 1));
}

// ---- Claimed plans ----

Strand strand_on(const std::shared_ptr<const Schedule>& schedule, bool direct, std::int64_t tiles) {
  Strand strand = sennit::bind(schedule,
                               direct ? PathKind::kCma : PathKind::kShm,
                               direct ? Protocol::kDirectGet : Protocol::kSlots,
                               kSlots,
                               Engine::kCpu);
  strand.tile_bytes = tiles * kTileElements * static_cast<std::int64_t>(sizeof(std::int64_t));
  return strand;
}

// Slots in tiles of one, and direct in tiles of two; a grain is two.
Made claimed(Collective collective,
             const std::vector<std::string_view>& algorithms,
             const Shape& shape) {
  auto plan = std::make_shared<Plan>(Plan{.strands = {}, .division = Division::kClaimed});
  for (std::size_t i = 0; i < algorithms.size(); ++i) {
    const auto schedule = std::make_shared<const Schedule>(
        make_schedule(*find_algorithm(collective, algorithms[i]).value(), shape).value());
    plan->strands.push_back(strand_on(schedule, i % 2 == 1, static_cast<std::int64_t>(1 + i % 2)));
  }
  return {.name = fmt::format("{}, {} ranks, root {}", name(collective), shape.ranks, shape.root),
          .plan = std::move(plan),
          .slots = kSlots};
}

TEST(ClaimedGrains, ComeOnceWhateverStrandTakesThem) {
  for (const int ranks : {1, 2, 3, 5}) {
    Shape shape;
    shape.ranks = ranks;
    Shape rooted = shape;
    rooted.root = ranks - 1;
    for (const Made& made :
         {claimed(Collective::kBroadcast, {"chain", "direct", "k_nomial"}, rooted),
          claimed(Collective::kAllGather, {"ring", "direct"}, shape),
          claimed(Collective::kAllToAll, {"pairwise", "direct"}, shape)}) {
      SCOPED_TRACE(made.name);
      for (const std::int64_t count :
           {std::int64_t{0}, std::int64_t{1}, 2 * kTileElements, 31 * kTileElements + 3}) {
        Runner runner(made, count);
        expect_right(runner, made, count);
      }
    }
  }
}

TEST(ClaimedGrains, AStrandOfSeveralCopiesSharesItsGrainsAmongThem) {
  Shape shape;
  shape.ranks = 4;
  Made made = claimed(Collective::kBroadcast, {"chain", "chain"}, shape);
  Plan plan = *made.plan;
  plan.strands[0].width = 3;
  made.plan = std::make_shared<const Plan>(plan);
  constexpr std::int64_t kCount = 33 * kTileElements + 5;
  Runner runner(made, kCount);
  expect_right(runner, made, kCount);
}

TEST(ClaimedGrains, ASlowStrandTakesFewer) {
  Shape shape;
  shape.ranks = 2;
  Made made = claimed(Collective::kBroadcast, {"chain", "chain"}, shape);
  Plan plan = *made.plan;
  // A bundle whose policy always takes cma, because what is made slow is a path of a bundle.
  for (ChannelBinding& channel : plan.strands[1].channels) {
    channel.paths = {PathKind::kCma, PathKind::kShm};
  }
  made.plan = std::make_shared<const Plan>(plan);
  constexpr std::int64_t kCount = 40 * kTileElements;
  Runner runner(made, kCount);
  runner.set_policy({.rule = PathRule::kFixed, .path = 0});
  runner.set_slow_path({.path = PathKind::kCma, .delay = std::chrono::milliseconds(150)});
  const Execution run = runner.run(verify(*made.plan).value());
  ASSERT_EQ(run.defect, "");
  EXPECT_EQ(find_wrong_output(made.plan->problem(), kCount, run), "");
  EXPECT_EQ(find_defect_of_trace(*made.plan, run), "");
  const auto grains = [&](int strand) {
    return std::ranges::count_if(run.claims, [&](const TraceClaim& claim) {
      return claim.rank == 0 && claim.strand == strand;
    });
  };
  EXPECT_EQ(grains(0) + grains(1), 20);
  EXPECT_GT(grains(1), 0);
  EXPECT_LT(grains(1), grains(0));
}

// ---- Traces that are not legal ----

// Spoils one record of a legal trace in every way that there is, and wants each to be seen.
TEST(PathChoice, WrongRecordsOfMessagesAreFound) {
  const Made gather = bundled(Collective::kGather, "direct", 3, {.rank_0_chooses = true});
  Runner runner(gather, kTileElements);
  runner.set_slow_path({.path = PathKind::kShm, .delay = std::chrono::milliseconds(20)});
  const Execution run = runner.run(verify(*gather.plan).value());
  ASSERT_EQ(find_defect_of_trace(*gather.plan, run), "");
  const std::vector<std::function<void(TraceMessage&)>> mistakes{
      [](TraceMessage& message) { message.path = 1 - message.path; },
      [](TraceMessage& message) { ++message.position; },
      [](TraceMessage& message) { ++message.message; },
      [](TraceMessage& message) {
        const bool sends = message.event == Event::kSent || message.event == Event::kSentAgain;
        message.tick = sends ? UINT64_MAX : 0;
      },
      [](TraceMessage& message) {
        message.event = message.event == Event::kTaken ? Event::kLate : Event::kTaken;
      }};
  for (std::size_t m = 0; m < run.messages.size(); ++m) {
    for (std::size_t mistake = 0; mistake < mistakes.size(); ++mistake) {
      Execution wrong = run;
      mistakes[mistake](wrong.messages[m]);
      EXPECT_NE(find_defect_of_trace(*gather.plan, wrong), "")
          << "message record " << m << ", mistake " << mistake;
    }
  }
}

TEST(PathChoice, ASlotThatWasNotFreeAndAStepThatEndedEarlyAreFound) {
  const Made chain = bundled(Collective::kBroadcast, "chain", 2);
  Runner runner(chain, kTileElements * 12);
  for (const int path : {0, 1}) {
    runner.set_policy({.rule = PathRule::kFixed, .path = path});
    const Execution run = runner.run(verify(*chain.plan).value());
    ASSERT_EQ(find_defect_of_trace(*chain.plan, run), "");
    Execution wrong = run;
    // The first message is taken only when all is over.
    const auto first = std::ranges::find_if(wrong.messages, [](const TraceMessage& message) {
      return message.event == Event::kTaken && message.message == 0;
    });
    first->tick = UINT64_MAX;
    const std::string defect = find_defect_of_trace(*chain.plan, wrong);
    EXPECT_NE(defect.find(path == 0 ? "not free" : "the sender went on"), std::string::npos)
        << defect;
  }
}

TEST(ClaimedGrains, AnotherLogOnOneRankIsFound) {
  Shape shape;
  shape.ranks = 3;
  const Made made = claimed(Collective::kBroadcast, {"chain", "direct"}, shape);
  Runner runner(made, kTileElements * 40);
  const Execution run = runner.run(verify(*made.plan).value());
  ASSERT_EQ(find_defect_of_trace(*made.plan, run), "");
  for (std::size_t c = 0; c < run.claims.size(); ++c) {
    Execution wrong = run;
    wrong.claims[c].strand = 1 - wrong.claims[c].strand;
    EXPECT_NE(find_defect_of_trace(*made.plan, wrong), "");
    wrong = run;
    wrong.claims[c].tick = UINT64_MAX;
    EXPECT_NE(find_defect_of_trace(*made.plan, wrong), "");
  }
}

}  // namespace
}  // namespace sennit
