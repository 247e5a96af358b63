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

// The same as identity_from_environment() without environment and counter. `parent` tells apart the
// jobs of a launcher that gives no job id: the ranks of one job have one parent.
Result<Identity> identity_from(const VariableLookup& lookup, std::string_view parent);

// "pid:start time" of the parent process; a pid alone may be used again.
std::string parent_process();

}  // namespace sennit
