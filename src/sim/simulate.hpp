// simulate(): how long a plan would take on a machine that need not exist.
//
//   Topology machine = topology_from_text(text, "ac922.machine").value();
//   Simulation run = simulate(plan, machine, {.count = 1 << 20}).value();
//   fmt::print("{} us\n", run.seconds * 1e6);
//
// The plan is the object that the verifier proves and the executors run, and its steps start and
// end by the same rules (schedule/schedule.hpp). What the simulator adds is time: a step takes the
// start-up of its path, and then as long as its bytes take on links that it shares, max-min fair,
// with all that moves at the same time. docs/simulator.md says what is left out. The result depends
// on nothing but the arguments.
#pragma once

#include "machine/topology.hpp"
#include "schedule/path_policy.hpp"
#include "schedule/plan.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sennit {

struct SimulationRequest {
  std::int64_t count = 0;  // elements, as in a call
  std::int64_t element_bytes = 4;
  int ranks_per_device = 1;
  // A device runs one of its ranks at a time (Vertex::switch_us): processes without CUDA's
  // Multi-Process Service. kUnsupported for kernels, which hold the device while they wait.
  bool in_turn = false;
  int calls = 1;  // one after the other, as a benchmark times them; the result is that of one
  // Of all senders of bundles; empty: each message takes the path that would be through with it
  // first, at the shares of that moment.
  std::optional<PathPolicy> policy{};
  bool timeline = false;  // costs memory: one record for each step of each tile
};

// A burst of tiles of one step, as it ran.
struct TimelineEvent {
  int rank = 0;
  int strand = 0;
  int copy = 0;
  int lane = 0;
  int step = 0;
  std::int64_t tile = 0;  // the first of the burst
  double begin_us = 0;
  double end_us = 0;
};

struct ResourceUse {
  std::string name;
  double gbps = 0;   // what it can carry
  double bytes = 0;  // what it carried
  double busy = 0;   // bytes / (gbps * time), 0 to 1
};

struct Simulation {
  double seconds = 0;
  std::vector<ResourceUse> resources;  // those that carried something
  std::vector<TimelineEvent> timeline;
  std::int64_t steps = 0;  // that ran, bursts counted once
  std::int64_t flows = 0;
};

// kInvalidArgument when the machine lacks a path that the plan names, or cannot hold the ranks;
// kUnsupported for a claimed plan; kNotProved when the plan locks up.
Result<Simulation> simulate(const Plan& plan,
                            const Topology& machine,
                            const SimulationRequest& request);

}  // namespace sennit
