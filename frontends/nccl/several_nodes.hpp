// Communicators whose ranks are on several nodes: NVIDIA's NCCL, whose network cards access GPU
// memory, makes their calls where all ranks have the same one and SENNIT_NCCL_NODES does not say
// otherwise. What is derived from them for the ranks of one node is Sennit's again.
#pragma once

#include "communicator.hpp"
#include "companion.hpp"
#include "fallback.hpp"
#include "group.hpp"
#include "stopwatch.hpp"

namespace sennit_nccl {

// Decides it once the communicator has been joined: on all ranks, which come to the same.
ncclResult_t decide_who_calls(ncclComm_t comm);
// The same on a thread of its own: ncclInProgress until it is decided.
ncclResult_t poll_who_calls(ncclComm_t comm);

// Whether NVIDIA's NCCL makes the calls of the communicator.
inline bool is_passed_on(ncclComm_t comm) { return comm != nullptr && comm->is_passed_on.load(); }

// Makes the call of this name with NVIDIA's communicator in place of ours.
template <auto* Ours, typename... Given>
ncclResult_t pass_on(const char* name, ncclComm_t comm, Given... given) {
  static auto* const theirs = fallback().function<std::remove_pointer_t<decltype(Ours)>>(name);
  const Stopwatch watch(name);
  const Use use(comm);
  forget_refusal();
  if (theirs == nullptr) {
    return of_group(refuse(ncclInvalidUsage,
                           std::string(name) + " is not in NCCL " +
                               version_text(fallback().version) + " (" + fallback().path + ")"));
  }
  if (in_group()) {
    if (const ncclResult_t begun = begin_nvidias_group(comm); begun != ncclSuccess) {
      return of_group(begun);
    }
  }
  comm->passed_on.fetch_add(1, std::memory_order_relaxed);
  const ncclResult_t result = theirs(given...);
  watch.count(0, "several nodes");
  return of_group(answer_of(name, result, comm->companion));
}

}  // namespace sennit_nccl
