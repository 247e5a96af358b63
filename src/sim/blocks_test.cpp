// The simulator on the thread blocks of a kernel together.
#include "algo/algorithm.hpp"
#include "sim/simulate.hpp"

#include <gtest/gtest.h>

namespace sennit {
namespace {

constexpr std::int64_t kBytes = std::int64_t{256} << 20;

// Blocks whose only lane sends and then sums: while some of them sum, others send.
TEST(Blocks, DoNotStayInStep) {
  const auto machine = topology_from_text(R"(machine blocks Two GPUs
source test chosen for round numbers
gpu 0..1 memory 600 GB/s from test
link gpu0 gpu1 nvlink 100 GB/s from test
path nvlink start 9 us sm 1 us from test
)",
                                          "test.machine");
  ASSERT_TRUE(machine.ok()) << machine.status().message();
  const Algorithm& one_shot = **find_algorithm(Collective::kAllReduce, "one_shot");
  Strand strand = bind(std::make_shared<const Schedule>(*make_schedule(one_shot, {.ranks = 2})),
                       PathKind::kNvlink,
                       Protocol::kSlots,
                       2,
                       Engine::kSm);
  strand.tile_bytes = 8192;
  strand.width = 128;
  const auto seconds = [&] {
    const auto run = simulate({{strand}}, *machine, {.count = kBytes, .element_bytes = 1});
    EXPECT_TRUE(run.ok()) << run.status().message();
    return run.ok() ? run->seconds : 0;
  };
  const double on_wire = static_cast<double>(kBytes) / 100e9;
  EXPECT_GT(seconds(), on_wire);
  EXPECT_LT(seconds(), 1.25 * on_wire);
  // In step they would take half as long again: a sum reads twice and writes once.
  strand.width = 1;
  EXPECT_GT(seconds(), 1.4 * on_wire);
}

}  // namespace
}  // namespace sennit
