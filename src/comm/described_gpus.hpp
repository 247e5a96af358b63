// GPU ranks of a machine that is described, and need not be here: the plan that they would run, by
// the same choice, the same maker of plans and the same grids as theirs
// (exec/sm/kernel_limits.hpp).
//
//   SENNIT_ASSIGN_OR_RETURN(const DeviceFacts facts, facts_of_described_gpus(machine, {.ranks =
//   4})); SENNIT_ASSIGN_OR_RETURN(const DevicePlan made, plan_for_devices({...}, facts));
//   simulate(made.plan, machine, {.count = bytes, .element_bytes = 1});
#pragma once

#include "machine/topology.hpp"
#include "select/device_choice.hpp"

#include <cstdint>

namespace sennit {

struct DeviceCall {
  Collective collective = Collective::kAllReduce;
  Shape shape{};
  std::int64_t bytes = 0;  // as for choose_for_devices()
  CallRequest request{};
  int world_ranks = 0;  // of the communicator, where a message between two of them is one of many
};

struct DevicePlan {
  DeviceChoice choice;
  Plan plan;  // with the tiles, copies and slots of a call of this size
};

// Processes of one host.
struct DescribedRanks {
  int ranks = 2;
  int ranks_per_gpu = 1;  // neighbours in rank
  bool has_mps = true;    // which those that share a GPU have
};
// With default settings. kUnsupported where the machine has too few GPUs.
Result<DeviceFacts> facts_of_described_gpus(const Topology& machine, const DescribedRanks& there);

// kUnsupported for kernels whose packets go through host memory, which the simulator does not know.
Result<DevicePlan> plan_for_devices(const DeviceCall& call, const DeviceFacts& facts);

}  // namespace sennit
