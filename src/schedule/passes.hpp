// Passes: functions from schedule to schedule that run before the proof. The verifier speaks of
// their result, which is what the executor runs.
#pragma once

#include "schedule/schedule.hpp"

namespace sennit {

// Joins a recv or recv_reduce with the send of the same blocks that follows it in the lane into one
// step with `in` and `out`, so that a message is forwarded while it is in cache and a partial sum
// that is only passed on is never stored. The number of messages, their order and the expression
// tree of every value stay the same.
//
// A send stays a step of its own where joining would change more than that: it waits for something
// that the recv does not wait for, or a step of another lane waits for the recv, or the fused step
// would send two messages to one channel. A fused step starts only when its `out` channels have a
// free slot, so a ring of them needs two slots a channel.
//
// What a fused step stores is dropped when a later step of its lane overwrites it unread and no
// other lane of the rank touches it, an output block and the input block in its place being one.
Schedule fuse(Schedule schedule);

// Lets a step that reduces blocks of scratch memory, into each of which a recv of another lane puts
// one message for it alone, take these messages itself. For engines whose slots are that memory:
// messages stay in their slots until all of them are reduced.
Schedule reduce_in_slots(Schedule schedule);

// Gives every step a lane of its own, so that nothing is ordered but by messages, `after`, and the
// reading of what an earlier step of its lane has stored. For engines that start what can start.
// Lanes in which steps share a channel stay as they are.
Schedule loosen(Schedule schedule);

}  // namespace sennit
