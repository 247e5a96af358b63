// What an ncclComm_t points to, and how the library's statuses are told in NCCL's words.
#pragma once

#include "nccl_abi.h"

#include "sennit/sennit.h"

#include <string>

struct ncclComm {
  sennit_comm_t comm = nullptr;
  // Of this rank alone: what it sends to itself is a broadcast here. Made when it is first needed.
  sennit_comm_t self = nullptr;
  // Calls of a communicator that does not block may answer ncclInProgress.
  bool blocking = true;
};

namespace sennit_nccl {

// The result that says the same as the status.
ncclResult_t result_of(sennit_status_t status);

// Refuses a call by itself: `why` is what ncclGetLastError then says on this thread.
ncclResult_t refuse(ncclResult_t result, std::string why);

// What ncclGetLastError says: of the last refusal of this thread, or of the library.
const char* last_error();
// The library's own error is the last one now.
void forget_refusal();

// Where buffers lie: for NCCL's callers on the current device, unless SENNIT_DEVICE says otherwise,
// which NULL leaves to the library.
const char* device_name();

// Neither NULL nor already failed before it was made.
ncclResult_t check(ncclComm_t comm);

// Runs a call on a communicator that must be there, and translates its status.
template <typename Run>
ncclResult_t on(ncclComm_t comm, Run&& run) {
  const ncclResult_t usable = check(comm);
  if (usable != ncclSuccess) {
    return usable;
  }
  forget_refusal();
  return result_of(run(comm->comm));
}

}  // namespace sennit_nccl

// A function's twin, pncclX, which profilers that stand in for ncclX call. In the file of ncclX.
#define SENNIT_NCCL_TWIN(name) \
  extern "C" __attribute__((visibility("default"), alias(#name))) decltype(name) p##name
