// Passes: functions from schedule to schedule that run before the proof. The verifier speaks of
// their result, which is what the executor runs.
#pragma once

#include "schedule/schedule.hpp"

namespace sennit {

// Joins a recv or recv_reduce with the send of the same blocks that follows it in the lane into one
// step with `in` and `out`, so that a message is forwarded while it is in cache and a partial sum
// that is only passed on is never stored. The number of messages, their order and the expression
// tree of every value stay the same.
Schedule fuse(Schedule schedule);

}  // namespace sennit
