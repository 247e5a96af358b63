// Schedules that a program brings. A call names one as it names an algorithm of the table.
//
//   SENNIT_ASSIGN_OR_RETURN(Schedule schedule, schedule_from_json(text, "mine.json"));
//   const Algorithm& row = keep_schedule(std::move(schedule));  // row.name:
//   "schedule:mine:3f0c..." make_schedule(row, {.ranks = 4});
#pragma once

#include "algo/algorithm.hpp"

#include <string_view>

namespace sennit {

// The row of a schedule that passes check_structure, which is kept as long as the process lives.
// Equal schedules have one row. Its name holds a hash of the whole schedule, so what has one name
// on all ranks is one schedule. From any thread.
const Algorithm& keep_schedule(Schedule schedule);

bool is_name_of_given(std::string_view name);

// The kept row with this name. kInvalidArgument where there is none, or it is of another
// collective.
Result<const Algorithm*> find_given(Collective collective, std::string_view name);

}  // namespace sennit
