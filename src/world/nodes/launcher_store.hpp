// LauncherStore: how a text of rank 0 comes to all ranks of a job by its launcher, where that does
// not say where rank 0 is: PMI-1 of hydra (MPICH, Intel MPI) and PMIx (Open MPI).
#pragma once

#include "base/status.hpp"
#include "world/rendezvous/identity.hpp"

#include <string>
#include <string_view>

namespace sennit {

// By what the launcher of this process has, once a process. kUnsupported: by nothing.
Result<MeetingPlace> meet_by_launcher(int rank);

// All ranks call these once, with the text of rank 0. They wait for it at most `timeout_s`.

// By the connection `socket` that hydra gives each rank (PMI_FD): lines of words, as in MPICH's
// src/pmi.
Result<std::string> share_by_pmi(int socket, bool is_rank_0, std::string_view text, int timeout_s);

// By the library of PMIx that the launcher itself, a process above this one, has loaded. It runs in
// a child process: Open MPI does not start in a process that has finished PMIx before.
Result<std::string> share_by_pmix(bool is_rank_0, const std::string& text, int timeout_s);

}  // namespace sennit
