#include "select/machine_plan.hpp"

#include "base/integers.hpp"
#include "machine/catalogue.hpp"
#include "select/pipeline_model.hpp"
#include "sim/simulate.hpp"
#include "verify/verify.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace sennit {
namespace {

TEST(PipelineModel, IsThePipelinedChainForAChain) {
  const PipelineModel chain{.start_s = 10e-6, .bytes_per_s = 50e9, .lane_steps = 1, .rounds = 7};
  // Paper 2, (5) for n = 8: (M/C + n - 2)(t_s + C/B).
  EXPECT_DOUBLE_EQ(chain.seconds(64e6, 1e6), (64 + 8 - 2) * (10e-6 + 1e6 / 50e9));
  EXPECT_DOUBLE_EQ(chain.best_tile_bytes(64e6), std::sqrt(64e6 * 10e-6 * 50e9 / 6));
}

TEST(PipelineModel, TheBestTileIsBetterThanItsNeighbours) {
  const PipelineModel model{
      .start_s = 10e-6, .bytes_per_s = 50e9, .lane_steps = 3, .rounds = 11, .message_blocks = 2};
  // Multiples of a fraction of the block, so that the last tile is whole.
  const double block = 1e9;
  const double best = model.best_tile_bytes(block);
  const auto whole = [&](double tile) { return block / std::round(block / tile); };
  EXPECT_LT(model.seconds(block, whole(best)), model.seconds(block, whole(best * 2)));
  EXPECT_LT(model.seconds(block, whole(best)), model.seconds(block, whole(best / 2)));
}

TEST(PipelineModel, ARingIsNotCutIntoTiles) {
  const PipelineModel ring{.start_s = 1e-6, .bytes_per_s = 1e9, .lane_steps = 15, .rounds = 14};
  EXPECT_EQ(ring.best_tile_bytes(1e6), 1e6);
}

TEST(MachinePlan, TakesTheBestPathOfEachPair) {
  const Topology machine = *find_machine("ac922");
  const Algorithm* ring = *find_algorithm(Collective::kAllReduce, "ring");
  const auto plan =
      plan_on_machine({.algorithm = ring, .shape = {.ranks = 4}, .bytes = kMega}, machine);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const std::vector<ChannelBinding>& channels = plan->strands.front().channels;
  ASSERT_EQ(channels.size(), 4U);
  EXPECT_EQ(channels[0].paths, std::vector<Path>{PathKind::kNvlink});
  EXPECT_EQ(channels[1].paths, std::vector<Path>{PathKind::kPcie});  // across the X-bus
  EXPECT_EQ(channels[2].paths, std::vector<Path>{PathKind::kNvlink});
  EXPECT_EQ(channels[3].paths, std::vector<Path>{PathKind::kPcie});
}

// What is simulated can be proved: binding to a machine breaks nothing.
TEST(MachinePlan, EveryAlgorithmIsProvedAndRunsOnEveryMachineOfTheCatalogue) {
  for (const CatalogueEntry& entry : catalogue()) {
    const Topology machine = *find_machine(entry.name);
    const auto devices = static_cast<int>(machine.devices().size());
    const int ranks = std::max(devices, 2);
    const int ranks_per_device = ranks / devices;
    for (const Collective collective : kCollectives) {
      for (const Algorithm& algorithm : algorithms(collective)) {
        const Shape shape = grouped({.ranks = ranks}, machine, ranks_per_device);
        if (!algorithm.refuses(shape).empty()) {
          continue;
        }
        const auto plan = plan_on_machine({.algorithm = &algorithm,
                                           .shape = shape,
                                           .bytes = kMega,
                                           .ranks_per_device = ranks_per_device},
                                          machine);
        ASSERT_TRUE(plan.ok()) << entry.name << " " << algorithm.name << ": "
                               << plan.status().message();
        const auto proof = verify(*plan);
        EXPECT_TRUE(proof.ok()) << entry.name << " " << name(collective) << " " << algorithm.name
                                << ": " << proof.status().message();
        const auto run =
            simulate(*plan,
                     machine,
                     {.count = kMega, .element_bytes = 1, .ranks_per_device = ranks_per_device});
        ASSERT_TRUE(run.ok()) << entry.name << " " << algorithm.name << ": "
                              << run.status().message();
        EXPECT_GT(run->seconds, 0);
        for (const ResourceUse& use : run->resources) {
          EXPECT_LE(use.busy, 1 + 1e-6) << use.name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace sennit
