// What the tools that show a schedule, or time one, share.
#pragma once

#include "algo/algorithm.hpp"
#include "base/json.hpp"

namespace sennit {

// Whether the schedule is right: with two slots a channel, which executors have at least.
Json proof_form(const Schedule& schedule);

// "radix" and "groups" for an algorithm that looks at neither are kInvalidArgument.
Status check_taken(const JsonObject& request, const Algorithm& algorithm);

}  // namespace sennit
