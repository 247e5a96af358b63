// OneLane: the pass for an engine that runs each rank as one thread of control.
#pragma once

#include "schedule/schedule.hpp"

namespace sennit {

// Joins the lanes of every rank into one, in the order in which one tile runs when channels have
// `slots` slots and every lane takes a step as soon as it may. That run is an order of execution
// which the result allows, so the result is live where the schedule is. What `after` and the depth
// of scratch have kept in order is then kept by the lane. kNotProved where the tile gets stuck.
Result<Schedule> join_lanes(Schedule schedule, int slots);

}  // namespace sennit
