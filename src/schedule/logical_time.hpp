// Logical time: at which tick each step of one tile could run if every step took one tick and slots
// were never short. What pictures of a schedule use as their horizontal axis.
#pragma once

#include "schedule/schedule.hpp"

#include <cstdint>
#include <vector>

namespace sennit {

struct StepNode {
  int rank = 0;
  int lane = 0;
  int step = 0;
  int tick = 0;
};

enum class EdgeKind : std::uint8_t { kLane, kAfter, kMessage };

// `to` starts after `from` has ended; both are indices into LogicalTime::nodes.
struct StepEdge {
  std::size_t from = 0;
  std::size_t to = 0;
  EdgeKind kind = EdgeKind::kLane;
  int channel = -1;  // of a kMessage
};

struct LogicalTime {
  std::vector<StepNode> nodes;  // by rank, lane, step
  std::vector<StepEdge> edges;
  int ticks = 0;  // one more than the last tick
  // Steps wait for each other in a circle. Those steps then only keep the order of their lanes.
  bool cyclic = false;
};

// `schedule` must pass check_structure.
LogicalTime logical_time(const Schedule& schedule);

}  // namespace sennit
