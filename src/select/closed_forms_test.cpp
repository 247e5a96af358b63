// The papers' equations against the simulator, which does not know them, on machines where what
// they assume holds: within 2 %.
#include "select/machine_plan.hpp"
#include "select/models.hpp"
#include "sim/simulate.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace sennit::models {
namespace {

constexpr LinkModel kLink{.start_s = 10e-6, .bytes_per_s = 10e9};
constexpr double kTolerance = 0.02;

double simulated(Collective collective,
                 std::string_view algorithm,
                 int ranks,
                 int radix,
                 std::int64_t bytes,
                 std::int64_t tile) {
  const std::string text = fmt::format(R"(machine crossbar GPUs on an ideal switch
source test chosen for round numbers
gpu 0..{0}
switch crossbar
link gpu0..{0} crossbar nvlink 10 GB/s from test
path nvlink start 10 us from test
)",
                                       ranks - 1);
  const Topology machine = *topology_from_text(text, "crossbar.machine");
  const auto plan = plan_on_machine({.algorithm = *find_algorithm(collective, algorithm),
                                     .shape = {.ranks = ranks, .radix = radix},
                                     .bytes = bytes,
                                     .tile_bytes = tile},
                                    machine);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return simulate(*plan, machine, {.count = bytes, .element_bytes = 1})->seconds;
}

TEST(Models, TheSimulatorAgreesWhereTheirAssumptionsHold) {
  constexpr std::int64_t kMessage = 64 << 20;
  const auto message = static_cast<double>(kMessage);
  for (const int ranks : {2, 4, 8, 16}) {
    const double chain = simulated(Collective::kBroadcast, "chain", ranks, 0, kMessage, kMessage);
    EXPECT_NEAR(chain / broadcast_chain(kLink, ranks, message), 1, kTolerance) << ranks;
    for (const std::int64_t chunk : {kMessage / 256, kMessage / 32, kMessage / 4}) {
      const double pipelined =
          simulated(Collective::kBroadcast, "chain", ranks, 0, kMessage, chunk);
      EXPECT_NEAR(
          pipelined / broadcast_pipelined_chain(kLink, ranks, message, static_cast<double>(chunk)),
          1,
          kTolerance)
          << ranks << " ranks, chunks of " << chunk;
    }
    // The root's port is what (1) counts; its n - 1 start-ups overlap here.
    const double direct = simulated(Collective::kBroadcast, "direct", ranks, 0, kMessage, kMessage);
    EXPECT_NEAR(direct / broadcast_direct(kLink, ranks, message), 1, kTolerance) << ranks;
  }
}

// A ring is paced by its slowest link, and no all_reduce beats what its ports can carry.
TEST(Models, NoSimulatedAllReduceBeatsTheBound) {
  constexpr std::int64_t kMessage = 64 << 20;
  for (const int ranks : {2, 4, 7, 8}) {
    for (const Algorithm& row : algorithms(Collective::kAllReduce)) {
      if (!row.refuses({.ranks = ranks}).empty()) {
        continue;
      }
      const double time = simulated(Collective::kAllReduce, row.name, ranks, 0, kMessage, 1 << 20);
      EXPECT_GE(time, bound_all_reduce(10e9, ranks, static_cast<double>(kMessage)) * (1 - 1e-9))
          << row.name << " on " << ranks;
    }
  }
}

TEST(Models, TheSimulatorAgreesOnTreesAndRings) {
  constexpr std::int64_t kMessage = 64 << 20;
  const auto message = static_cast<double>(kMessage);
  // Our parents serve all their children at once, where (3) has them served in turn: with k levels
  // the last child of the root has its message k messages later, its own last one k - 1 later.
  for (const auto& [ranks, levels] : {std::pair{4, 2}, {8, 3}, {16, 4}}) {
    const double tree = simulated(Collective::kBroadcast, "k_nomial", ranks, 2, kMessage, kMessage);
    const double expected =
        levels * kLink.start_s + levels * (levels + 1) / 2.0 * message / kLink.bytes_per_s;
    EXPECT_NEAR(tree / expected, 1, kTolerance) << ranks;
  }
  for (const int ranks : {4, 8, 16}) {
    // 2 (n - 1) rounds of an n-th each: the bound and the start-ups.
    const double ring = simulated(Collective::kAllReduce, "ring", ranks, 0, kMessage, kMessage);
    const double expected =
        bound_all_reduce(kLink.bytes_per_s, ranks, message) + 2 * (ranks - 1) * kLink.start_s;
    EXPECT_NEAR(ring / expected, 1, kTolerance) << ranks;
  }
}

// Two strands of one message: the direct one in one piece, the staged one in chunks.
TEST(Models, TheSimulatorAgreesOnTwoPaths) {
  const Topology machine = *topology_from_text(R"(machine pair Two GPUs and a processor
source test chosen for round numbers
gpu 0..1
cpu 0
link gpu0 gpu1 nvlink 72 GB/s from test
link gpu0..1 cpu0 pcie 53 GB/s from test
path host start 10 us from test
)",
                                               "pair.machine");
  constexpr MultiPathModel kModel{
      .direct_bytes_per_s = 72e9, .host_bytes_per_s = 53e9, .host_start_s = 10e-6};
  constexpr std::int64_t kMessage = 256 << 20;
  for (const int percent : {10, 25, 40, 60}) {
    const double share = percent / 100.0;
    const double host_bytes = share * kMessage;
    Plan plan;
    for (const bool host : {false, true}) {
      const Algorithm* algorithm = *find_algorithm(Collective::kSendRecv, "direct");
      const auto schedule =
          std::make_shared<const Schedule>(*make_schedule(*algorithm, {.ranks = 2}));
      Strand strand = bind(schedule,
                           host ? PathKind::kHost : PathKind::kNvlink,
                           host ? Protocol::kSlots : Protocol::kDirectPut,
                           4,
                           Engine::kStream);
      strand.share = host ? percent : 100 - percent;
      strand.tile_bytes =
          host ? static_cast<std::int64_t>(multi_path_best_chunk(kModel, host_bytes)) : kMessage;
      plan.strands.push_back(std::move(strand));
    }
    const auto run = simulate(plan, machine, {.count = kMessage, .element_bytes = 1});
    ASSERT_TRUE(run.ok()) << run.status().message();
    EXPECT_NEAR(run->seconds / multi_path_time(kModel, kMessage, share), 1, kTolerance) << percent;
  }
}

// Nodes whose GPUs have a card each; tiles are the segments.
TEST(Models, TheSimulatorAgreesOnManyRails) {
  constexpr int kNodes = 4;
  constexpr int kGpus = 4;
  const Topology machine = *topology_from_text(R"(machine rails GPUs with a card each
source test chosen for round numbers
gpu 0..3
nic 0..3
switch crossbar
fabric net
link gpu0..3 crossbar nvlink 100 GB/s from test
link gpu0..3 nic0..3 pcie 100 GB/s from test
link nic0..3 net net 10 GB/s from test
path nvlink start 10 us from test
path rail start 10 us from test
)",
                                               "rails.machine");
  constexpr std::int64_t kMessage = 64 << 20;
  const MultiRailModel model{.network = kLink,
                             .gpu = {.start_s = 10e-6, .bytes_per_s = 100e9},
                             .nodes = kNodes,
                             .gpus_per_node = kGpus,
                             .corrected = true};
  const Shape shape = grouped({.ranks = kNodes * kGpus}, machine, 1);
  for (const int segments : {1, 2, 4}) {
    const auto plan =
        plan_on_machine({.algorithm = *find_algorithm(Collective::kAllGather, "multi_rail"),
                         .shape = shape,
                         .bytes = kMessage,
                         .tile_bytes = kMessage / segments},
                        machine);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    const double seconds =
        simulate(*plan, machine, {.count = kMessage, .element_bytes = 1})->seconds;
    // (8) lets a segment come in whole before it is handed on. Ours hands on message by message, so
    // all but the last one's way through the node is hidden behind the network.
    const double segment = static_cast<double>(kMessage) / segments;
    const double expected =
        segments * multi_rail_inter_single(model, segment) + multi_rail_local(model, segment);
    EXPECT_NEAR(seconds / expected, 1, kTolerance) << segments;
    EXPECT_LT(seconds, multi_rail_optimized(model, kMessage, segments)) << segments;
  }
}

}  // namespace
}  // namespace sennit::models
