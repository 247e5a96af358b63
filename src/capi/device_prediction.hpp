// What GPU ranks of a described machine would run, as a plan that the simulator takes: the choice
// is theirs (select/device_choice.hpp), and so are the grids of thread blocks.
//
//   SENNIT_ASSIGN_OR_RETURN(const DeviceFacts facts, device_facts_on(machine, 4));
//   SENNIT_ASSIGN_OR_RETURN(const DevicePlan made, plan_for_devices({...}, facts));
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
  Wishes wishes{};
  int world_ranks = 0;  // of the communicator, where a message between two of them is one of many
};

struct DevicePlan {
  DeviceChoice choice;
  Plan plan;
};

// Of ranks with a GPU each, processes of one host with the settings that they have by themselves.
Result<DeviceFacts> device_facts_on(const Topology& machine, int ranks);

// kUnsupported for kernels whose packets go through host memory, which are not described here.
Result<DevicePlan> plan_for_devices(const DeviceCall& call, const DeviceFacts& facts);

}  // namespace sennit
