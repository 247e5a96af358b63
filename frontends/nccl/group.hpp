// Groups: what a thread has begun and not ended. Calls are grouped by the library; this is about
// the making of communicators, which one thread may do for several ranks between start and end.
#pragma once

#include "communicator.hpp"

#include <functional>

namespace sennit_nccl {

bool in_group();

// A call of the open group, if there is one, is on this communicator.
void hold_until_end(ncclComm_t comm);

// Of a call: in a group one that is refused is reported at its end, too, which makes none of its
// calls then. A program may ask there alone.
ncclResult_t of_group(ncclResult_t result);

// Whether a call of the open group is on this communicator, which is then destroyed when the group
// has ended.
bool destroy_at_end(ncclComm_t comm);

// Until the group ends: a communicator that joins in the background.
void join_at_end(ncclComm_t comm);
// What waits for the other ranks of a communicator: in a group at its end, for this thread may act
// for those, too. What a group has of one communicator runs in its order.
ncclResult_t now_or_at_end(ncclComm_t comm, std::function<ncclResult_t()> act);
// What the calls of the group come before.
ncclResult_t now_or_after_calls(ncclComm_t comm, std::function<ncclResult_t()> act);

// A call of the open group goes to NVIDIA's NCCL, whose group ends with this one.
ncclResult_t begin_nvidias_group(ncclComm_t comm);

}  // namespace sennit_nccl
