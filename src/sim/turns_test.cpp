// Ranks of one device, which runs them at once or one at a time.
#include "sim/turns.hpp"

#include "algo/algorithm.hpp"
#include "base/integers.hpp"
#include "sim/simulate.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sennit {
namespace {

constexpr double kStart = 10e-6;
constexpr double kCopy = 2.0 * kMega / 100e9;  // read and written

Topology shared_gpu(const std::string& changes) {
  auto topology = topology_from_text(
      "machine shared One GPU\nsource test round numbers\n"
      "gpu 0 memory 100 GB/s" +
          changes +
          " from test\ncpu 0\n"
          "link gpu0 cpu0 pcie 10 GB/s from test\n"
          "path device start 10 us from test\n"
          "path host start 10 us from test\n",
      "shared.machine");
  EXPECT_TRUE(topology.ok()) << topology.status().message();
  return *topology;
}

// Ranks 1 and 2 each send a block to rank 0.
Plan gather(PathKind path, Protocol protocol, Engine engine = Engine::kStream) {
  const auto row = find_algorithm(Collective::kGather, "direct");
  auto schedule = make_schedule(**row, {.ranks = 3});
  EXPECT_TRUE(schedule.ok()) << schedule.status().message();
  Strand strand =
      bind(std::make_shared<const Schedule>(std::move(*schedule)), path, protocol, 2, engine);
  strand.tile_bytes = kMega;
  return {{strand}};
}

Result<Simulation> run(const Plan& plan, const Topology& machine, bool in_turn) {
  return simulate(plan,
                  machine,
                  {.count = kMega, .element_bytes = 1, .ranks_per_device = 3, .in_turn = in_turn});
}

double seconds(const Plan& plan, const Topology& machine, bool in_turn) {
  const auto result = run(plan, machine, in_turn);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? result->seconds : 0;
}

// Rank 0 copies its own block.
TEST(Turns, CopiesOfRanksThatTakeTurnsPayForEachChange) {
  const Topology machine = shared_gpu(" switch 100 us");
  const Plan puts = gather(PathKind::kDevice, Protocol::kDirectPut);
  EXPECT_LT(seconds(puts, machine, false), kStart + 3.1 * kCopy);
  EXPECT_GT(seconds(puts, machine, true), 2 * 100e-6 + kStart + 2 * kCopy);
  EXPECT_LT(seconds(puts, machine, true), 3 * 100e-6 + 3 * (kStart + kCopy));
}

// Then nobody else needs the device.
TEST(Turns, WhoReadsTheBlocksOfOthersNeedsNoChange) {
  const Topology machine = shared_gpu(" switch 100 us");
  const Plan gets = gather(PathKind::kDevice, Protocol::kDirectGet);
  EXPECT_LT(seconds(gets, machine, true), 2 * kStart + 6 * kCopy);
}

TEST(Turns, CopiesFromAndToTheHostHaveChangesOfTheirOwn) {
  const Plan staged = gather(PathKind::kHost, Protocol::kSlots);
  const double at_once = seconds(staged, shared_gpu(""), false);
  EXPECT_EQ(seconds(staged, shared_gpu(" copy_switch 1 us"), false), at_once);
  EXPECT_EQ(seconds(staged, shared_gpu(""), true), at_once);
  // Two copies to the host, and two from it by another rank.
  EXPECT_GT(seconds(staged, shared_gpu(" copy_switch 1000 us"), true), 2e-3);
}

TEST(Turns, ARankGoesOnWithoutAChange) {
  sim::Turns turns;
  EXPECT_TRUE(turns.may_enter(0, 1, 10));
  EXPECT_FALSE(turns.enter(0, 1)) << "nobody had it";
  EXPECT_TRUE(turns.may_enter(0, 1, 11));
  EXPECT_FALSE(turns.enter(0, 1));
  EXPECT_FALSE(turns.may_enter(0, 2, 20));
  EXPECT_TRUE(turns.may_enter(1, 2, 20)) << "another device";
  EXPECT_TRUE(turns.leave(0).empty());
  EXPECT_EQ(turns.leave(0), std::vector{20});
  EXPECT_TRUE(turns.may_enter(0, 2, 20));
  EXPECT_TRUE(turns.enter(0, 2));
}

TEST(Turns, KernelsThatWaitForEachOtherAreRefused) {
  const Topology machine = shared_gpu(" switch 100 us");
  const Plan kernels = gather(PathKind::kDevice, Protocol::kDirectPut, Engine::kSm);
  EXPECT_TRUE(run(kernels, machine, false).ok());
  const auto refused = run(kernels, machine, true);
  EXPECT_EQ(refused.status().code(), Code::kUnsupported);
  EXPECT_NE(refused.status().message().find("copy_engines"), std::string::npos);
}

TEST(Turns, MachineFilesKeepBothNumbers) {
  const Topology machine = shared_gpu(" switch 100 us copy_switch 7 us");
  EXPECT_EQ(machine.vertices.front().copy_switch_us, 7);
  const auto again = topology_from_text(to_text(machine), "again.machine");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->vertices.front().switch_us, 100);
  EXPECT_EQ(again->vertices.front().copy_switch_us, 7);
}

}  // namespace
}  // namespace sennit
