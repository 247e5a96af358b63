// Plans for machines that are described, not necessarily here: which path each channel takes, which
// engine runs the lanes, how large a tile is.
#pragma once

#include "algo/algorithm.hpp"
#include "machine/topology.hpp"
#include "schedule/plan.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace sennit {

struct MachinePlanRequest {
  const Algorithm* algorithm = nullptr;
  Shape shape{};
  std::int64_t bytes = 0;  // as for choose()
  int ranks_per_device = 1;
  std::vector<Path> paths{};    // one or a bundle, for every channel that can take all
  std::int64_t tile_bytes = 0;  // 0: what PipelineModel takes for best
};

// `shape` with the groups of the machine: nodes, or the islands of the only one. No groups where
// there is one.
Shape grouped(const Shape& shape, const Topology& machine, int ranks_per_device);

// kInvalidArgument when some channel has no path on the machine.
Result<Plan> plan_on_machine(const MachinePlanRequest& request, const Topology& machine);

}  // namespace sennit
