// The simulator against closed forms, where their assumptions hold: every rank has a port of
// bandwidth B each way, and a step takes t_s and then its bytes.
#include "sim/simulate.hpp"

#include "algo/algorithm.hpp"
#include "base/integers.hpp"
#include "schedule/one_lane.hpp"
#include "sim/fabric.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace sennit {
namespace {

constexpr double kStart = 8e-6;
constexpr double kBandwidth = 50e9;
// The clock counts whole picoseconds, rounded up at each event.
constexpr double kRounding = 1e-6;

Topology parse(const std::string& text) {
  auto topology = topology_from_text(text, "test.machine");
  EXPECT_TRUE(topology.ok()) << topology.status().message();
  return *topology;
}

Topology crossbar(int gpus) {
  return parse(fmt::format(R"(machine crossbar GPUs on an ideal switch
source test chosen for round numbers
gpu 0..{0}
switch crossbar
link gpu0..{0} crossbar nvlink 50 GB/s from test
path nvlink start 8 us from test
)",
                           gpus - 1));
}

Strand strand_of(Collective collective, std::string_view algorithm, const Shape& shape) {
  const auto row = find_algorithm(collective, algorithm);
  EXPECT_TRUE(row.ok());
  auto schedule = make_schedule(**row, shape);
  EXPECT_TRUE(schedule.ok()) << schedule.status().message();
  return bind(std::make_shared<const Schedule>(std::move(*schedule)),
              PathKind::kNvlink,
              Protocol::kDirectPut,
              2,
              Engine::kStream);
}

double seconds(const Plan& plan, const Topology& machine, std::int64_t bytes) {
  const auto run = simulate(plan, machine, {.count = bytes, .element_bytes = 1});
  EXPECT_TRUE(run.ok()) << run.status().message();
  return run.ok() ? run->seconds : 0;
}

double relative_error(double measured, double expected) {
  return std::abs(measured / expected - 1);
}

TEST(Simulate, OneMessageTakesStartUpAndBytes) {
  Strand strand = strand_of(Collective::kSendRecv, "direct", {.ranks = 2});
  strand.tile_bytes = kMega;
  const double expected = kStart + static_cast<double>(kMega) / kBandwidth;
  EXPECT_LT(relative_error(seconds({{strand}}, crossbar(2), kMega), expected), kRounding);
}

// Paper 2, (5): (M/C + n - 2)(t_s + C/B).
TEST(Simulate, ChainOverManyTilesIsThePipelinedChain) {
  for (const int ranks : {2, 3, 8, 16}) {
    for (const std::int64_t chunk : {kMega / 16, kMega / 4, 4 * kMega}) {
      Strand strand = strand_of(Collective::kBroadcast, "chain", {.ranks = ranks});
      strand.tile_bytes = chunk;
      const std::int64_t bytes = 16 * kMega;
      const std::int64_t chunks = bytes / chunk;
      const double expected = (static_cast<double>(chunks) + ranks - 2) *
                              (kStart + static_cast<double>(chunk) / kBandwidth);
      EXPECT_LT(relative_error(seconds({{strand}}, crossbar(ranks), bytes), expected), kRounding)
          << ranks << " ranks, chunks of " << chunk;
    }
  }
}

// A binomial tree with a lane for each child. The i children of a node share its port and end
// together, i (M/B) after they started; the child with the largest subtree has i - 1 of its own. So
// one tile takes the sum over i = 1..log2 n of t_s + i M/B, where the textbook, whose parent serves
// one child after the other and starts with the largest subtree, has log2 n (t_s + M/B).
TEST(Simulate, ChildrenOfATreeShareTheirParentsPort) {
  for (const int rounds : {1, 2, 3, 4}) {
    Strand strand =
        strand_of(Collective::kBroadcast, "k_nomial", {.ranks = 1 << rounds, .radix = 2});
    strand.tile_bytes = kMega;
    double expected = 0;
    for (int children = 1; children <= rounds; ++children) {
      expected += kStart + children * static_cast<double>(kMega) / kBandwidth;
    }
    EXPECT_LT(relative_error(seconds({{strand}}, crossbar(1 << rounds), kMega), expected),
              kRounding)
        << rounds;
  }
}

TEST(Simulate, RingsTakeOneStepEachRound) {
  for (const int ranks : {2, 3, 4, 8}) {
    const std::int64_t block = 4 * kMega;
    const double step = kStart + static_cast<double>(block) / kBandwidth;
    Strand all_reduce = strand_of(Collective::kAllReduce, "ring", {.ranks = ranks});
    all_reduce.tile_bytes = block;
    EXPECT_LT(relative_error(seconds({{all_reduce}}, crossbar(ranks), ranks * block),
                             2 * (ranks - 1) * step),
              kRounding)
        << ranks;
    Strand all_gather = strand_of(Collective::kAllGather, "ring", {.ranks = ranks});
    all_gather.tile_bytes = block;
    EXPECT_LT(relative_error(seconds({{all_gather}}, crossbar(ranks), block), (ranks - 1) * step),
              kRounding)
        << ranks;
  }
}

// All pairs at once: every port carries n - 1 blocks out and as many in, start-ups overlap.
TEST(Simulate, DirectAllToAllFillsEveryPort) {
  for (const int ranks : {2, 4, 8}) {
    const std::int64_t block = 4 * kMega;
    Strand strand = strand_of(Collective::kAllToAll, "direct", {.ranks = ranks});
    strand.tile_bytes = block;
    const double wire = (ranks - 1) * static_cast<double>(block) / kBandwidth;
    const double run = seconds({{strand}}, crossbar(ranks), block);
    EXPECT_GE(run, wire + kStart - 1e-9);
    EXPECT_LE(run, wire + (ranks - 1) * kStart + 1e-9);
  }
}

TEST(Simulate, StrandsShareTheMessageAndTheWire) {
  const Topology machine = parse(R"(machine two_ways Two GPUs, a wire, and a way through the host
source test chosen for round numbers
gpu 0..1
cpu 0
link gpu0 gpu1 nvlink 60 GB/s from test
link gpu0..1 cpu0 pcie 20 GB/s from test
)");
  Strand direct = strand_of(Collective::kSendRecv, "direct", {.ranks = 2});
  direct.tile_bytes = 64 * kMega;
  const double alone = seconds({{direct}}, machine, 64 * kMega);
  EXPECT_LT(relative_error(alone, 64.0 * kMega / 60e9), kRounding);
  Strand staged = bind(direct.schedule, PathKind::kHost, Protocol::kSlots, 4, Engine::kStream);
  staged.tile_bytes = kMega / 8;
  direct.share = 3;
  const double both = seconds({{direct, staged}}, machine, 64 * kMega);
  // A quarter goes through the host at 20: as long as three quarters at 60. The pipeline of the
  // host takes one chunk more.
  const double expected = 16.0 * kMega / 20e9 + static_cast<double>(kMega) / 8 / 20e9;
  EXPECT_LT(relative_error(both, expected), kRounding);
}

TEST(Simulate, SlotsOfTheHostPathAreReused) {
  const Topology machine = parse(R"(machine staged Two GPUs that reach each other through the host
source test chosen for round numbers
gpu 0..1
cpu 0
link gpu0..1 cpu0 pcie 20 GB/s from test
path host start 10 us from test
)");
  Strand staged = strand_of(Collective::kSendRecv, "direct", {.ranks = 2});
  staged = bind(staged.schedule, PathKind::kHost, Protocol::kSlots, 1, Engine::kStream);
  staged.tile_bytes = kMega;
  const double stage = 10e-6 + static_cast<double>(kMega) / 20e9;
  // With one slot the two halves alternate, with two they overlap.
  EXPECT_LT(relative_error(seconds({{staged}}, machine, 8 * kMega), 16 * stage), kRounding);
  staged.channels.front().slots = 2;
  EXPECT_LT(relative_error(seconds({{staged}}, machine, 8 * kMega), 9 * stage), kRounding);
}

TEST(Simulate, BurstsPayOneStartUp) {
  Strand strand = strand_of(Collective::kSendRecv, "direct", {.ranks = 2});
  strand.tile_bytes = kMega;
  strand.channels.front().slots = 8;
  for (auto& lanes : strand.lanes) {
    for (LaneBinding& lane : lanes) {
      lane.burst = 4;
    }
  }
  const double expected = 2 * kStart + 7.0 * kMega / kBandwidth;
  EXPECT_LT(relative_error(seconds({{strand}}, crossbar(2), 7 * kMega), expected), kRounding);
}

TEST(Simulate, WidthRunsTilesSideBySide) {
  Strand strand = strand_of(Collective::kSendRecv, "direct", {.ranks = 2});
  strand.tile_bytes = kMega;
  strand.width = 4;
  const double expected = kStart + 4.0 * kMega / kBandwidth;
  EXPECT_LT(relative_error(seconds({{strand}}, crossbar(2), 4 * kMega), expected), kRounding);
}

TEST(Simulate, ALaneOfThreadBlocksHasItsOwnLimit) {
  const Topology machine = parse(R"(machine blocks Two GPUs
source test chosen for round numbers
gpu 0..1
link gpu0 gpu1 nvlink 300 GB/s from test
path nvlink start 9 us sm 1 us lane 50 GB/s from test
)");
  Strand strand = strand_of(Collective::kSendRecv, "direct", {.ranks = 2});
  strand = bind(strand.schedule, PathKind::kNvlink, Protocol::kDirectPut, 2, Engine::kSm);
  strand.tile_bytes = kMega;
  const double one_block = 1e-6 + static_cast<double>(kMega) / 50e9;
  EXPECT_LT(relative_error(seconds({{strand}}, machine, kMega), one_block), kRounding);
  strand.width = 8;
  const double eight_blocks = 1e-6 + 8.0 * kMega / 300e9;
  EXPECT_LT(relative_error(seconds({{strand}}, machine, 8 * kMega), eight_blocks), kRounding);
}

// Stores of thread blocks get less out of a wire than a copy engine, and a kernel takes its time to
// begin and end.
TEST(Simulate, ThreadBlocksTogetherStoreLessThanTheWireCarries) {
  const Topology machine = parse(R"(machine blocks Two GPUs
source test chosen for round numbers
gpu 0..1 call 3 us from test
link gpu0 gpu1 nvlink 300 GB/s from test
path nvlink start 9 us sm 1 us sms 200 GB/s from test
)");
  Strand strand = strand_of(Collective::kSendRecv, "direct", {.ranks = 2});
  strand.tile_bytes = kMega;
  const double copied = 9e-6 + static_cast<double>(kMega) / 300e9;
  EXPECT_LT(relative_error(seconds({{strand}}, machine, kMega), copied), kRounding);
  strand = bind(strand.schedule, PathKind::kNvlink, Protocol::kDirectPut, 2, Engine::kSm);
  strand.tile_bytes = kMega;
  const double stored = 3e-6 + 1e-6 + static_cast<double>(kMega) / 200e9;
  EXPECT_LT(relative_error(seconds({{strand}}, machine, kMega), stored), kRounding);
}

// Thread blocks do not wait for what they have stored: what a message takes on its way is paid
// once.
TEST(Simulate, StoresOfThreadBlocksOverlapWithTheWayOfOthers) {
  const Topology machine = parse(R"(machine posted Two GPUs
source test chosen for round numbers
gpu 0..1 load 2 us from test
link gpu0 gpu1 nvlink 100 GB/s from test
path nvlink start 9 us sm 1 us from test
)");
  Strand strand = strand_of(Collective::kSendRecv, "direct", {.ranks = 2});
  strand = bind(strand.schedule, PathKind::kNvlink, Protocol::kDirectPut, 2, Engine::kSm);
  strand.tile_bytes = kMega;
  // The load before the first store is on the way as well.
  const double expected = 2e-6 + 1e-6 + 8.0 * kMega / 100e9;
  EXPECT_LT(relative_error(seconds({{strand}}, machine, 8 * kMega), expected), kRounding);
}

// A block that runs one lane a rank meets in each step; other kernels do not.
TEST(Simulate, StepByStepEachStepHasACostOfItsOwn) {
  const auto machine = [](std::string_view step) {
    return parse(fmt::format(R"(machine steps Three GPUs
source test chosen for round numbers
gpu 0..2 call 3 us{} from test
switch crossbar
link gpu0..2 crossbar nvlink 100 GB/s from test
path nvlink start 9 us sm 1 us lane 50 GB/s from test
)",
                             step));
  };
  const auto cost_of_steps = [&](const Strand& made, bool by_steps) {
    Strand strand = bind(made.schedule, PathKind::kNvlink, Protocol::kSlots, 2, Engine::kSm);
    strand.tile_bytes = kMega;
    strand.by_steps = by_steps;
    return seconds({{strand}}, machine(" step 2 us"), kMega) -
           seconds({{strand}}, machine(""), kMega);
  };
  Strand chain = strand_of(Collective::kBroadcast, "chain", {.ranks = 3});
  chain.schedule = std::make_shared<const Schedule>(*join_lanes(*chain.schedule, 2));
  // Send, pass on, take.
  EXPECT_NEAR(cost_of_steps(chain, true), 6e-6, 1e-9);
  EXPECT_EQ(cost_of_steps(chain, false), 0);
}

Strand packets_of(Collective collective, std::string_view algorithm, const Shape& shape) {
  Strand strand = strand_of(collective, algorithm, shape);
  strand = bind(strand.schedule, PathKind::kNvlink, Protocol::kLl128, 2, Engine::kSm);
  strand.tile_bytes = 120 * 8192;  // 1 MB on the wire
  return strand;
}

constexpr std::string_view kRoundsMachine = R"(machine rounds Two GPUs
source test chosen for round numbers
gpu 0..1 memory 1000 GB/s call 2 us load 3 us from test
link gpu0 gpu1 nvlink 100 GB/s from test
path nvlink start 9 us sm 1 us sm_free 20 us from test
)";
constexpr double kPacketTime = kMega / 100e9;
constexpr double kStoreTime = 2.0 * 120 * 8192 / 1000e9;  // read out of a slot, written

// A writer that nobody answers may be two rounds ahead of what has been acknowledged.
TEST(Simulate, AWriterWaitsForTheWordThatARoundIsOver) {
  const Topology machine = parse(std::string(kRoundsMachine));
  const Strand strand = packets_of(Collective::kSendRecv, "direct", {.ranks = 2});
  const double way = 3e-6 + 1e-6 + kStoreTime;
  const double ahead = 2e-6 + 2 * kPacketTime + way;
  EXPECT_LT(relative_error(seconds({{strand}}, machine, 2 * strand.tile_bytes), ahead), kRounding);
  // Rounds 1, 3 and 5, each behind the word of the one before.
  const double waits = 2e-6 + 2 * (kPacketTime + way + 20e-6) + kPacketTime + way;
  EXPECT_LT(relative_error(seconds({{strand}}, machine, 5 * strand.tile_bytes), waits), kRounding);
}

// Ranks that answer each other need no word, but end every round before they begin the next one;
// what each copies for itself comes last.
TEST(Simulate, RoundsOfAnExchangeFollowEachOther) {
  const Topology machine = parse(std::string(kRoundsMachine));
  const Strand exchange = packets_of(Collective::kAllToAll, "direct", {.ranks = 2});
  const double own_copy = 3e-6 + kStoreTime;
  const double round = kPacketTime + 3e-6 + 1e-6 + kStoreTime + own_copy;
  EXPECT_LT(
      relative_error(seconds({{exchange}}, machine, 3 * exchange.tile_bytes), 2e-6 + 3 * round),
      kRounding);
  // An all-gather sends what it copies, so it has it at hand.
  const Strand gather = packets_of(Collective::kAllGather, "direct", {.ranks = 2});
  EXPECT_LT(relative_error(seconds({{gather}}, machine, 3 * gather.tile_bytes),
                           2e-6 + 3 * (round - own_copy)),
            kRounding);
}

// The sender's next call begins while the last message is on its way; the receiver's does not.
TEST(Simulate, CallsFollowEachOtherOnEveryRank) {
  const Topology machine = parse(std::string(kRoundsMachine));
  const Strand strand = packets_of(Collective::kSendRecv, "direct", {.ranks = 2});
  const auto calls = [&](int count) {
    const auto run = simulate(
        {{strand}}, machine, {.count = strand.tile_bytes, .element_bytes = 1, .calls = count});
    EXPECT_TRUE(run.ok()) << run.status().message();
    return run.ok() ? run->seconds * count : 0;
  };
  const double way = 3e-6 + 1e-6 + kStoreTime;
  EXPECT_LT(relative_error(calls(1), 2e-6 + kPacketTime + way), kRounding);
  EXPECT_LT(relative_error(calls(2), 2 * (2e-6 + kPacketTime) + way), kRounding);
}

// A sender whose message is fetched by a copy engine hears of it a while later.
TEST(Simulate, ALentMessageIsFreeWhenItsSenderKnows) {
  const Topology machine = parse(R"(machine exposed Two GPUs
source test chosen for round numbers
gpu 0..1
link gpu0 gpu1 nvlink 100 GB/s from test
path nvlink start 9 us free 5 us from test
)");
  Strand strand = strand_of(Collective::kSendRecv, "direct", {.ranks = 2});
  strand = bind(strand.schedule, PathKind::kNvlink, Protocol::kDirectGet, 2, Engine::kStream);
  strand.tile_bytes = kMega;
  EXPECT_LT(relative_error(seconds({{strand}}, machine, kMega), 9e-6 + kPacketTime + 5e-6),
            kRounding);
}

// The reader copies, so the bytes move in its step, and the sender's step lasts as long.
TEST(Simulate, DirectGetMovesBytesInTheReadersStep) {
  Strand strand = strand_of(Collective::kSendRecv, "direct", {.ranks = 2});
  strand = bind(strand.schedule, PathKind::kNvlink, Protocol::kDirectGet, 2, Engine::kStream);
  strand.tile_bytes = kMega;
  const auto run =
      simulate({{strand}}, crossbar(2), {.count = kMega, .element_bytes = 1, .timeline = true});
  ASSERT_TRUE(run.ok()) << run.status().message();
  const double expected_us = (kStart + static_cast<double>(kMega) / kBandwidth) * 1e6;
  ASSERT_EQ(run->timeline.size(), 2U);
  for (const TimelineEvent& event : run->timeline) {
    EXPECT_EQ(event.begin_us, 0) << event.rank;
    EXPECT_NEAR(event.end_us, expected_us, 1e-3) << event.rank;
  }
}

TEST(Simulate, ABundleTakesTheFreePath) {
  const Topology machine = parse(R"(machine bundle Two GPUs with a wire and the host between them
source test chosen for round numbers
gpu 0..1
cpu 0
link gpu0 gpu1 nvlink 20 GB/s from test
link gpu0..1 cpu0 pcie 20 GB/s from test
)");
  Strand strand = strand_of(Collective::kSendRecv, "direct", {.ranks = 2});
  strand = bind(strand.schedule, PathKind::kNvlink, Protocol::kSlots, 4, Engine::kStream);
  strand.width = 2;
  strand.tile_bytes = kMega;
  const double one_path = seconds({{strand}}, machine, 64 * kMega);
  strand.channels.front().paths = {PathKind::kNvlink, PathKind::kHost};
  const double two_paths = seconds({{strand}}, machine, 64 * kMega);
  EXPECT_NEAR(two_paths / one_path, 0.5, 0.05);
}

TEST(Simulate, ReportsWhatEachLinkCarried) {
  Strand strand = strand_of(Collective::kSendRecv, "direct", {.ranks = 2});
  strand.tile_bytes = kMega;
  const auto run = simulate({{strand}}, crossbar(2), {.count = kMega, .element_bytes = 1});
  ASSERT_TRUE(run.ok());
  ASSERT_EQ(run->resources.size(), 2U);
  EXPECT_EQ(run->resources[0].name, "gpu0>crossbar nvlink");
  EXPECT_EQ(run->resources[1].name, "crossbar>gpu1 nvlink");
  EXPECT_EQ(run->resources[0].bytes, kMega);
  EXPECT_NEAR(run->resources[0].busy, 0.7239, 1e-3);  // 20.97 us of 28.97
}

TEST(Simulate, RefusesWhatTheMachineLacks) {
  Strand strand = strand_of(Collective::kSendRecv, "direct", {.ranks = 2});
  strand = bind(strand.schedule, PathKind::kHost, Protocol::kSlots, 2, Engine::kStream);
  const auto no_host = simulate({{strand}}, crossbar(2), {.count = 1});
  ASSERT_FALSE(no_host.ok());
  EXPECT_EQ(no_host.status().message(), "machine crossbar has no path host from rank 0 to rank 1");
  strand = strand_of(Collective::kBroadcast, "chain", {.ranks = 3});
  const auto no_fabric = simulate({{strand}}, crossbar(2), {.count = 1});
  ASSERT_FALSE(no_fabric.ok());
  EXPECT_EQ(no_fabric.status().message(),
            "3 ranks need 2 nodes of machine crossbar, which has no fabric to join them");
}

// A fused ring needs two slots (docs/schedule.md); with one it must not look as if it ended.
TEST(Simulate, SaysSoWhenThePlanLocksUp) {
  Strand strand = strand_of(Collective::kAllReduce, "ring", {.ranks = 3});
  for (ChannelBinding& channel : strand.channels) {
    channel.slots = 1;
  }
  const auto run = simulate({{strand}}, crossbar(3), {.count = 1024});
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.status().code(), Code::kNotProved);
  EXPECT_NE(run.status().message().find("locks up"), std::string::npos) << run.status().message();
}

// Every algorithm runs to its end on every machine it fits, twice the same.
TEST(Simulate, EveryAlgorithmRunsAndComesOutTheSameTwice) {
  for (const Collective collective : kCollectives) {
    for (const Algorithm& algorithm : algorithms(collective)) {
      for (const int ranks : {2, 3, 5, 8}) {
        const Shape shape{.ranks = ranks};
        if (!algorithm.refuses(shape).empty()) {
          continue;
        }
        Strand strand = strand_of(collective, algorithm.name, shape);
        strand.tile_bytes = 1000;
        strand.width = 2;
        const double first = seconds({{strand}}, crossbar(ranks), 10'001);
        EXPECT_GE(first, kStart) << algorithm.name << " " << ranks;
        EXPECT_EQ(first, seconds({{strand}}, crossbar(ranks), 10'001)) << algorithm.name;
      }
    }
  }
}

TEST(Fabric, FindsTheWayOfEachPath) {
  const Topology machine = parse(R"(machine node Four GPUs on two sockets, two cards
source test chosen for round numbers
gpu 0..3 memory 900 GB/s from test
cpu 0..1 memory 170 GB/s from test
nic 0..1
fabric net
link gpu0 gpu1 nvlink 75 GB/s from test
link gpu2 gpu3 nvlink 75 GB/s from test
link gpu0..1 cpu0 nvlink 75 GB/s from test
link gpu2..3 cpu1 nvlink 75 GB/s from test
link cpu0 cpu1 bus 64 GB/s both 56 GB/s from test
link cpu0 nic0 pcie 12 GB/s from test
link cpu1 nic1 pcie 12 GB/s from test
link nic0..1 net net 12.5 GB/s from test
)");
  auto fabric = sim::Fabric::build(machine, {.ranks = 8});
  ASSERT_TRUE(fabric.ok());
  EXPECT_EQ(fabric->node_count(), 2);
  const auto names = [&](const sim::Leg& leg) {
    std::string text;
    for (const sim::Use& use : leg.uses) {
      text += (text.empty() ? "" : ", ") + fabric->resource_name(use.resource);
    }
    return text;
  };
  EXPECT_EQ(names(fabric->route(0, 1, PathKind::kNvlink)->put), "node0 gpu0>gpu1 nvlink");
  EXPECT_EQ(fabric->route(0, 2, PathKind::kNvlink), nullptr);
  EXPECT_EQ(names(fabric->route(1, 2, PathKind::kPcie)->put),
            "node0 gpu1>cpu0 nvlink, node0 cpu0>cpu1 bus, node0 cpu0<>cpu1 bus, "
            "node0 cpu1>gpu2 nvlink");
  const sim::Route* staged = fabric->route(5, 4, PathKind::kHost);
  EXPECT_EQ(names(staged->put), "node1 gpu1>cpu0 nvlink, node1 cpu0 memory");
  EXPECT_EQ(names(staged->fetch), "node1 cpu0>gpu0 nvlink, node1 cpu0 memory");
  EXPECT_EQ(names(fabric->route(3, 4, PathKind::kRail)->put),
            "node0 gpu3>cpu1 nvlink, node0 cpu1>nic1 pcie, node0 nic1>net net, "
            "node1 net>nic0 net, node1 nic0>cpu0 pcie, node1 cpu0>gpu0 nvlink");
  EXPECT_EQ(fabric->route(0, 1, PathKind::kRail), nullptr);
  EXPECT_EQ(fabric->route(0, 4, PathKind::kHost), nullptr);
  EXPECT_EQ(fabric->route(0, 1, PathKind::kShm), nullptr);
}

}  // namespace
}  // namespace sennit
