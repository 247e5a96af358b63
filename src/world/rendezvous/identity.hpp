// Which rank of which set this process is, from what the launchers put into the environment.
#pragma once

#include "base/status.hpp"
#include "world/rendezvous/rendezvous.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace sennit {

using VariableLookup = std::function<std::optional<std::string>(const char* name)>;

// The same as identity_from_environment() without environment and counter. `parent` distinguishes
// the jobs of a launcher that gives no job id: the ranks of one job have one parent.
Result<Identity> identity_from(const VariableLookup& lookup,
                               std::string_view parent,
                               const MeetByLauncher& meet = {});

// The hosts of rank 0 where ranks may be on several nodes: SENNIT_ROOT, else what the launcher says
// whose set is complete. Empty: all ranks are on this node. kInvalidUsage for a launcher that has
// started ranks on several nodes and does not say where rank 0 is.
Result<std::string> root_from(const VariableLookup& lookup);

// The first of a list of hosts as Slurm writes it: "node07" of "node[07-09,12],login".
std::string first_host(std::string_view hosts);

// "pid:start time" of the parent process; a pid alone may be used again.
std::string parent_process();

}  // namespace sennit
