// Groups: what a thread has begun and not ended. Calls are grouped by the library; this is about
// the making of communicators, which one thread may do for several ranks between start and end.
#pragma once

#include "communicator.hpp"

#include <cstddef>
#include <functional>

namespace sennit_nccl {

bool in_group();

// A call of the open group, if there is one, is on this communicator.
void hold_until_end(ncclComm_t comm);

// Until the group ends: a communicator that joins in the background.
void join_at_end(ncclComm_t comm);
// At the group's end: what waits for other ranks, some of which this thread may make, too.
void run_at_end(std::function<ncclResult_t()> make);

// One end of a message of a rank to itself. The k-th send of a group meets the k-th receive.
struct SelfMessage {
  const void* from = nullptr;  // of a send
  void* to = nullptr;          // of a receive
  bool receives = false;
  std::size_t count = 0;
  sennit_dtype_t dtype = SENNIT_UINT8;
  cudaStream_t stream = nullptr;
};
ncclResult_t exchange_with_self(ncclComm_t comm, const SelfMessage& message);

}  // namespace sennit_nccl
