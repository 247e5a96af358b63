// A communicator of NVIDIA's NCCL with the same ranks as one of ours: its windows and device
// communicators serve kernels of the program's own, which reach into NCCL's memory. Collectives
// run on it where the ranks are on several nodes (several_nodes.hpp).
#pragma once

#include "communicator.hpp"

#include "sennit/tools.h"

#include <cstddef>
#include <string>

namespace sennit_nccl {

// Says at INFO, once a process, what runs on Sennit and where the rest goes.
void say_what_is_ours();

// Makes the companion of a communicator if all ranks have the same NCCL. Called by all ranks, in
// one order; all get the same answer. Success says that it is known whether there is one.
ncclResult_t seek_companion(ncclComm_t comm, bool has_nccl);

// Ends it with its communicator; `abort`: other ranks may be gone.
void end_companion(ncclComm_t comm, bool abort);

// For a device communicator: also where memory and windows are not NCCL's, unless there have been
// windows, which its kernels could not use.
ncclResult_t seek_companion_for_kernels(ncclComm_t comm);

// A window that is NCCL's where there is a companion, and else a registration of ours.
ncclResult_t make_window(
    ncclComm_t comm, void* buffer, std::size_t bytes, ncclWindow_t* window, int flags);
ncclResult_t end_window(ncclComm_t comm, ncclWindow_t window);
// Whether the window was made by NCCL.
bool is_nvidias(ncclWindow_t window);

// What NCCL answered to the call `name`: its words are ours to ncclGetLastError.
ncclResult_t answer_of(const char* name, ncclResult_t result, ncclComm_t theirs);

// Calls `act` on the device of the communicator and answers what it answers.
template <typename Act>
ncclResult_t on_device(ncclComm_t comm, Act&& act) {
  struct Call {
    Act& act;
    ncclResult_t result = ncclInternalError;
  } call{.act = act};
  const ncclResult_t there = result_of(sennit_tool_on_device(
      comm->comm,
      [](void* it) {
        auto& made = *static_cast<Call*>(it);
        made.result = made.act();
      },
      &call));
  return there != ncclSuccess ? there : call.result;
}

}  // namespace sennit_nccl
