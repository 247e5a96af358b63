// What the tools that show a schedule, or time one, share.
#pragma once

#include "algo/algorithm.hpp"
#include "base/json.hpp"

#include <initializer_list>
#include <string_view>

namespace sennit {

// The row of the schedule that a request brings as "schedule_text", the JSON form; places of
// mistakes begin with "schedule_file". With "fuse": true, as the pass `fuse` leaves it. Null where
// the request brings none. `not_taken` are keys whose meaning the schedule itself decides.
Result<const Algorithm*> read_given(const JsonObject& request,
                                    std::initializer_list<std::string_view> not_taken);

// Whether the schedule is right: with two slots a channel, which executors have at least.
Json proof_form(const Schedule& schedule);

// "radix" and "groups" for an algorithm that looks at neither are kInvalidArgument.
Status check_taken(const JsonObject& request, const Algorithm& algorithm);

}  // namespace sennit
