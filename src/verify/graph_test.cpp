#include "graph.hpp"

#include "base/testing/trials.hpp"
#include "schedule/builder.hpp"
#include "schedule/passes.hpp"
#include "verify/testing/random_execution.hpp"
#include "verify/testing/sample_schedules.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace sennit {
namespace {

using namespace verify_test;

// Joins a step that only takes with the next one of its lane that only sends.
void fuse_some(Random& random, Schedule& schedule) {
  for (auto& lanes : schedule.ranks) {
    for (Lane& lane : lanes) {
      for (std::size_t s = 0; s + 1 < lane.steps.size(); ++s) {
        if (lane.steps[s].out.empty() && lane.steps[s + 1].in.empty() && chance(random, 0.4)) {
          lane.steps[s].out = lane.steps[s + 1].out;
          lane.steps.erase(lane.steps.begin() + static_cast<std::ptrdiff_t>(s) + 1);
        }
      }
    }
  }
}

void shuffle_a_little(Random& random, Schedule& schedule) {
  for (auto& lanes : schedule.ranks) {
    for (Lane& lane : lanes) {
      for (std::size_t s = 0; s + 1 < lane.steps.size(); ++s) {
        if (chance(random, 0.4)) {
          std::swap(lane.steps[s], lane.steps[s + 1]);
        }
      }
    }
  }
}

// Marks some steps as users of a scratch and lets some wait for others. Tokens with blocks are no
// steps that check_structure lets pass, but waiting is all that this test is about.
void add_scratch_and_after(Random& random, Schedule& schedule) {
  schedule.scratch.push_back({.name = "s", .blocks = 1, .depth = 1 + pick(random, 2)});
  for (auto& lanes : schedule.ranks) {
    for (std::size_t l = 0; l < lanes.size(); ++l) {
      for (Step& step : lanes[l].steps) {
        if (chance(random, 0.15)) {
          step.from.push_back(scratch_block(0, 0));
        }
        const auto other = static_cast<std::size_t>(pick(random, static_cast<int>(lanes.size())));
        if (other != l && !lanes[other].steps.empty() && chance(random, 0.1)) {
          const int steps = static_cast<int>(lanes[other].steps.size());
          step.after.push_back({static_cast<int>(other), pick(random, steps)});
        }
      }
    }
  }
}

// A schedule of tokens: messages are appended to both ends in one global order, which is live with
// enough slots, and then some of that order is spoilt.
Schedule random_schedule(Random& random) {
  const int ranks = 2 + pick(random, 3);
  Builder b("random", {.collective = Collective::kBarrier, .ranks = ranks});
  std::vector<LaneId> lanes;
  for (int rank = 0; rank < ranks; ++rank) {
    for (int lane = 0; lane <= pick(random, 2); ++lane) {
      lanes.push_back(b.lane(rank, Need::kMove));
    }
  }
  const auto any_lane = [&] {
    return lanes[static_cast<std::size_t>(pick(random, static_cast<int>(lanes.size())))];
  };
  struct Ends {
    LaneId writer;
    std::vector<LaneId> readers;
    int channel;
  };
  std::vector<Ends> channels;
  for (int c = 0; c < 1 + pick(random, 4); ++c) {
    const LaneId writer = any_lane();
    std::vector<LaneId> readers;
    for (int tries = 0; tries < 4 && (readers.empty() || chance(random, 0.3)); ++tries) {
      const LaneId reader = any_lane();
      if (reader.rank != writer.rank &&
          std::ranges::find(readers, reader.rank, &LaneId::rank) == readers.end()) {
        readers.push_back(reader);
      }
    }
    if (!readers.empty()) {
      channels.push_back({writer, readers, b.hub(writer, readers)});
    }
  }
  for (int m = 0; m < 8 && !channels.empty(); ++m) {
    const Ends& ends =
        channels[static_cast<std::size_t>(pick(random, static_cast<int>(channels.size())))];
    b.token(ends.writer, {}, {ends.channel});
    for (const LaneId reader : ends.readers) {
      b.token(reader, {ends.channel}, {});
    }
  }
  Schedule schedule = std::move(b).finish();
  shuffle_a_little(random, schedule);
  fuse_some(random, schedule);
  if (chance(random, 0.5)) {
    add_scratch_and_after(random, schedule);
  }
  return schedule;
}

Strand random_strand(Random& random) {
  Strand strand = bind(std::make_shared<const Schedule>(random_schedule(random)),
                       PathKind::kShm,
                       Protocol::kSlots,
                       1 + pick(random, 3),
                       Engine::kCpu);
  for (ChannelBinding& channel : strand.channels) {
    if (chance(random, 0.1)) {
      channel.protocol = Protocol::kDirectGet;
    }
  }
  if (chance(random, 0.3)) {
    for (auto& lanes : strand.lanes) {
      for (LaneBinding& lane : lanes) {
        lane.burst = 1 + pick(random, 3);
      }
    }
  }
  return strand;
}

enum class Verdict : std::uint8_t { kLive, kDead, kUndefined };

Verdict verdict(const Strand& strand) {
  const FlatStrand program(strand);
  const Result<Graph> graph = Graph::build(program);
  if (!graph.ok()) {
    return Verdict::kUndefined;  // bursts that disagree on the order of messages
  }
  return Order(*graph).complete() ? Verdict::kLive : Verdict::kDead;
}

int period(const Strand& strand) {
  const FlatStrand program(strand);
  return Graph::build(program)->period();
}

constexpr int kSeeds = trials(6000, 1500);

TEST(Liveness, AgreesWithRandomExecutions) {
  int live = 0;
  int dead = 0;
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    Random random(seed);
    const Strand strand = random_strand(random);
    const Verdict found = verdict(strand);
    if (found == Verdict::kUndefined) {
      continue;
    }
    const int tiles = 6 * period(strand);
    const bool ended = Execution(strand, tiles).run(random);
    ASSERT_EQ(found == Verdict::kLive, ended) << "seed " << seed;
    ++(ended ? live : dead);
    // No number of tiles makes a live schedule die, not even one that ends within a burst.
    if (ended) {
      ASSERT_TRUE(Execution(strand, 1 + pick(random, tiles)).run(random)) << "seed " << seed;
    }
  }
  // The test says something only if both verdicts occur often.
  EXPECT_GT(live, kSeeds / 6);
  EXPECT_GT(dead, kSeeds / 12);
}

TEST(Liveness, IsNeverHurtByMoreSlots) {
  int checked = 0;
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    Random random(seed);
    Strand strand = random_strand(random);
    if (verdict(strand) != Verdict::kLive) {
      continue;
    }
    for (ChannelBinding& channel : strand.channels) {
      channel.slots += pick(random, 3);
    }
    ASSERT_EQ(verdict(strand), Verdict::kLive) << "seed " << seed;
    ++checked;
  }
  EXPECT_GT(checked, kSeeds / 6);
}

// The verdicts for 1, 2, 3 and 4 slots: 'l' live, 'd' dead.
std::string verdicts(const Schedule& schedule) {
  const auto shared = std::make_shared<const Schedule>(schedule);
  std::string word;
  for (int slots = 1; slots <= 4; ++slots) {
    const Strand strand = bind(shared, PathKind::kShm, Protocol::kSlots, slots, Engine::kCpu);
    word += verdict(strand) == Verdict::kLive ? 'l' : 'd';
    Random random(0);
    EXPECT_EQ(Execution(strand, 6).run(random), word.back() == 'l') << schedule.algorithm;
  }
  return word;
}

TEST(Liveness, OfKnownSchedules) {
  for (const int ranks : {3, 5}) {
    SCOPED_TRACE(ranks);
    EXPECT_EQ(verdicts(ring(ranks)), "llll");
    EXPECT_EQ(verdicts(fuse(ring(ranks))), "dlll");
    EXPECT_EQ(verdicts(chain(ranks)), "llll");
    EXPECT_EQ(verdicts(fuse(chain(ranks))), "llll");
    EXPECT_EQ(verdicts(exchange(ranks, First::kSend, /*by_round=*/false)), "llll");
    EXPECT_EQ(verdicts(exchange(ranks, First::kSend, /*by_round=*/true)), "llll");
    EXPECT_EQ(verdicts(exchange(ranks, First::kRecv, /*by_round=*/true)), "dddd");
    EXPECT_EQ(verdicts(two_shot(ranks, /*three_lanes=*/false)), "llll");
    EXPECT_EQ(verdicts(two_shot(ranks, /*three_lanes=*/true)), "llll");
    EXPECT_EQ(verdicts(hub_all_gather(ranks)), "llll");
  }
}

TEST(Liveness, NamesTheCircle) {
  const auto schedule = std::make_shared<const Schedule>(exchange(2, First::kRecv, true));
  const Strand strand = bind(schedule, PathKind::kShm, Protocol::kSlots, 1, Engine::kCpu);
  const FlatStrand program(strand);
  const Result<Graph> graph = Graph::build(program);
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(explain_circle(*graph, Order(*graph)),
            "rank 0 lane 0 step 1 (recv) waits for a message of channel 1 from rank 1 lane 0 step "
            "2 (send), which stands in its lane behind rank 1 lane 0 step 1 (recv), which waits "
            "for a message of channel 0 from rank 0 lane 0 step 2 (send), which stands in its "
            "lane behind rank 0 lane 0 step 1 (recv)");
}

// A burst is one unit: all its messages need slots at once, and both ends must agree on the order.
TEST(Bursts, NeedASlotForEachTile) {
  const auto schedule = std::make_shared<const Schedule>(chain(3));
  for (const int slots : {3, 4}) {
    Strand strand = bind(schedule, PathKind::kShm, Protocol::kSlots, slots, Engine::kCpu);
    strand.lanes[0][0].burst = 4;
    EXPECT_EQ(verdict(strand), slots < 4 ? Verdict::kDead : Verdict::kLive);
  }
}

TEST(Bursts, NeedAScratchInstanceForEachTile) {
  for (const int depth : {1, 2}) {
    Builder b("staged", {.collective = Collective::kAllGather, .ranks = 1});
    const int stage = b.scratch("stage", 1, depth);
    const LaneId lane = b.lane(0, Need::kMove);
    b.copy(lane, {input_block(0)}, {scratch_block(stage, 0)});
    b.copy(lane, {scratch_block(stage, 0)}, {output_block(0)});
    Strand strand = bind(std::make_shared<const Schedule>(std::move(b).finish()),
                         PathKind::kShm,
                         Protocol::kSlots,
                         /*slots=*/1,
                         Engine::kCpu);
    EXPECT_EQ(verdict(strand), Verdict::kLive);
    strand.lanes[0][0].burst = 2;
    EXPECT_EQ(verdict(strand), depth == 2 ? Verdict::kLive : Verdict::kDead);
  }
}

TEST(Bursts, OfBothEndsOrderTheMessagesAlike) {
  const auto schedule = std::make_shared<const Schedule>(ring(3));
  Strand strand = bind(schedule, PathKind::kShm, Protocol::kSlots, 64, Engine::kCpu);
  strand.lanes[0][0].burst = 2;
  EXPECT_EQ(verdict(strand), Verdict::kUndefined);
  for (auto& lanes : strand.lanes) {
    lanes[0].burst = 2;
  }
  EXPECT_EQ(verdict(strand), Verdict::kLive);
}

// Reachability by the plainest means.
std::vector<std::vector<bool>> reach(const Graph& graph, const Order& order, int periods) {
  const auto size = static_cast<std::size_t>(graph.size()) * static_cast<std::size_t>(periods);
  std::vector<std::vector<bool>> reached(size, std::vector<bool>(size, false));
  const auto at = [&](int node) { return static_cast<std::size_t>(order.position(node)); };
  for (const Edge& edge : graph.edges()) {
    for (int p = 0; p + edge.delay < periods; ++p) {
      reached[at(edge.from + p * graph.size())][at(edge.to + (p + edge.delay) * graph.size())] =
          true;
    }
  }
  for (std::size_t k = 0; k < size; ++k) {
    for (std::size_t i = 0; i < k; ++i) {
      for (std::size_t j = k + 1; j < size && reached[i][k]; ++j) {
        reached[i][j] = reached[i][j] || reached[k][j];
      }
    }
  }
  return reached;
}

TEST(Order, FindsTheOnlyUnorderedPair) {
  int found = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const Strand strand = random_strand(random);
    if (verdict(strand) != Verdict::kLive) {
      continue;
    }
    constexpr int kPeriods = 5;  // more nodes than one sweep follows
    const FlatStrand program(strand);
    const Result<Graph> graph = Graph::build(program);
    const Order order(*graph, kPeriods);
    const auto reached = reach(*graph, order, kPeriods);
    std::vector<Order::Pair> ordered;
    std::vector<Order::Pair> unordered;
    for (std::size_t i = 0; i < reached.size(); ++i) {
      for (std::size_t j = i + 1; j < reached.size(); ++j) {
        (reached[i][j] ? ordered : unordered).push_back({static_cast<int>(i), static_cast<int>(j)});
      }
    }
    std::ranges::shuffle(ordered, random);
    ASSERT_EQ(order.first_unordered(ordered), -1) << "seed " << seed;
    for (int tries = 0; tries < 20 && !unordered.empty() && !ordered.empty(); ++tries) {
      std::vector<Order::Pair> pairs = ordered;
      const int place = pick(random, static_cast<int>(pairs.size()));
      pairs[static_cast<std::size_t>(place)] =
          unordered[static_cast<std::size_t>(pick(random, static_cast<int>(unordered.size())))];
      ASSERT_EQ(order.first_unordered(pairs), place) << "seed " << seed;
      ++found;
    }
  }
  EXPECT_GT(found, 200);
}

}  // namespace
}  // namespace sennit
