// What the simulator says of all_reduce step by step in groups of GPUs, with numbers that were
// fitted to measured calls: first that it gives these back, then what the plans of today would
// take. No run has shown the latter yet (docs/decisions/0032).
#include "base/integers.hpp"
#include "exec/sm/step_program.hpp"
#include "memory/fifo_plan.hpp"
#include "schedule/one_lane.hpp"
#include "select/device_choice.hpp"
#include "sim/simulate.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace sennit {
namespace {

constexpr int kRanks = 4;

// Wires as in h200-x4.machine. step, lanes, call and the start of path host are what fits 5 calls
// over NVLink (h200x4-groups, `steps ring`) and 9 in groups best. An SM has 16 KB of loads under
// way: 8 GB/s of host memory are one such batch every 2 us. Memory of the host: all_reduce of
// 256 MB in h200x4-nop2p, whose FIFOs lie in its cache as staging buffers do.
constexpr std::string_view kMachine = R"(machine steps Four H200 that run schedules step by step
source h200 h200-x4.machine
source fit to rows of h200x4-groups
source nop2p bench/results, h200x4-nop2p
gpu 0..3 memory 4800 GB/s call 6 us step 2.1 us from fit
cpu 0 memory 293 GB/s from nop2p
switch nvswitch
link gpu0..3 nvswitch nvlink 395 GB/s both 780 GB/s from h200
link gpu0..3 cpu0 pcie 55 GB/s both 97.2 GB/s from h200
path nvlink start 7.2 us sm 0.7 us lane 27 GB/s from fit
path host start 14 us sm 1 us lane 8 GB/s from fit
)";

enum class Wires { kNvlink, kGroups };

// How a plan is made and what its kernels have.
struct Kernels {
  Wires wires = Wires::kGroups;
  bool fused = true;
  int blocks = 1;
  std::size_t device_slot_bytes = 0;
  std::size_t host_slot_bytes = 0;
};

// Of the calls that were measured.
constexpr Kernels kOverNvlink{Wires::kNvlink, false, 32, 128 << 10, 0};
constexpr Kernels kInGroups{Wires::kGroups, false, 16, 64 << 10, 64 << 10};

Kernels kernels_of_today() {
  const FifoPlan plan = FifoPlan::make(FifoPlace::kHost, kRanks, 132);
  return {.blocks = plan.staging.blocks,
          .device_slot_bytes = plan.peer_staging.slot_bytes,
          .host_slot_bytes = plan.staging.slot_bytes};
}

Strand strand_of(std::string_view algorithm, const Kernels& kernels) {
  const DeviceChoice choice{.algorithm = *find_algorithm(Collective::kAllReduce, algorithm),
                            .protocol = Protocol::kSlots,
                            .by_steps = true};
  DeviceFacts facts;
  if (kernels.wires == Wires::kGroups) {
    facts.reach = false;
    facts.groups = {{0, 1}, {2, 3}};
  }
  const Shape shape{.ranks = kRanks, .groups = facts.groups};
  Strand strand = (*make_device_plan(choice, shape, facts))->strands.front();
  if (!kernels.fused) {
    const Schedule made = *make_schedule(*choice.algorithm, shape);
    strand.schedule = std::make_shared<const Schedule>(*join_lanes(made, 2));
  }
  return strand;
}

double simulated_us(std::string_view algorithm, std::int64_t bytes, const Kernels& kernels) {
  Plan plan;
  plan.strands.push_back(strand_of(algorithm, kernels));
  Strand& strand = plan.strands.front();
  sm::StepCall call;
  call.program = **sm::compile_steps(strand, 0);
  const Status bound =
      sm::bind(plan.problem(),
               {bytes / 4, 4},
               {.blocks = kernels.blocks,
                .scratch_bytes = std::size_t{256} << 10,
                .slot_bytes = {kernels.device_slot_bytes, kernels.host_slot_bytes}},
               call);
  EXPECT_TRUE(bound.ok()) << bound.message();
  strand.tile_bytes = call.tile_bytes;
  strand.width = call.blocks;
  const auto machine = topology_from_text(kMachine, "steps.machine");
  EXPECT_TRUE(machine.ok()) << machine.status().message();
  const auto run = simulate(plan, *machine, {.count = bytes / 4, .element_bytes = 4});
  EXPECT_TRUE(run.ok()) << run.status().message();
  return run.ok() ? run->seconds * 1e6 : 0;
}

TEST(StepPrediction, GivesBackWhatWasMeasured) {
  struct Row {
    std::string_view algorithm;
    std::int64_t megabytes;
    double us;
    const Kernels& kernels;
  };
  for (const Row& row : {Row{"ring", 1, 30, kOverNvlink},
                         Row{"ring", 4, 45, kOverNvlink},
                         Row{"ring", 16, 124, kOverNvlink},
                         Row{"ring", 64, 485, kOverNvlink},
                         Row{"ring", 256, 1888, kOverNvlink},
                         Row{"ring", 16, 683, kInGroups},
                         Row{"ring", 64, 2650, kInGroups},
                         Row{"ring", 256, 10294, kInGroups},
                         Row{"hierarchical", 16, 1122, kInGroups},
                         Row{"hierarchical", 64, 4387, kInGroups},
                         Row{"hierarchical", 256, 17375, kInGroups},
                         Row{"hierarchical_sliced", 16, 955, kInGroups},
                         Row{"hierarchical_sliced", 64, 3818, kInGroups},
                         Row{"hierarchical_sliced", 256, 14996, kInGroups}}) {
    const double us = simulated_us(row.algorithm, row.megabytes * kMega, row.kernels);
    EXPECT_NEAR(us / row.us, 1, 0.165) << row.algorithm << " of " << row.megabytes << " MB";
  }
}

// Slices of all members, against the ring of the same staging buffers and against the ring that was
// measured.
TEST(StepPrediction, SlicesOfAllMembersAreAheadOfTheRing) {
  const Kernels today = kernels_of_today();
  for (const std::int64_t megabytes : {16, 64, 256, 1024}) {
    const double ring = simulated_us("ring", megabytes * kMega, today);
    const double sliced = simulated_us("hierarchical_sliced", megabytes * kMega, today);
    EXPECT_GT(ring / sliced, 1.25) << megabytes << " MB";
    EXPECT_LT(ring / sliced, 1.7) << megabytes << " MB";
  }
  EXPECT_GT(2650 / simulated_us("hierarchical_sliced", 64 * kMega, today), 1.25);
}

// Each of the three changes of decision 32 has its part in it.
TEST(StepPrediction, NamesWhatEachChangeIsWorth) {
  const auto us = [](const Kernels& kernels) {
    return simulated_us("hierarchical_sliced", 64 * kMega, kernels);
  };
  Kernels kernels = kInGroups;
  const double before = us(kernels);
  kernels.fused = true;
  const double fused = us(kernels);
  EXPECT_LT(fused, 0.85 * before) << "four steps a tile instead of six";
  kernels.device_slot_bytes *= 2;
  const double larger = us(kernels);
  EXPECT_LT(larger, 0.8 * fused) << "tiles of twice the size";
  kernels.blocks *= 2;
  EXPECT_LT(us(kernels), 0.85 * larger) << "twice the blocks";
}

}  // namespace
}  // namespace sennit
