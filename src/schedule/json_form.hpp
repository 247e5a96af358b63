// The JSON form of schedules and plans, for programs; people read the text form
// (schedule/text.hpp).
//
//   {"schema": 1, "collective": "all_reduce", "algorithm": "ring", "ranks": 3, "root": 0, "cut": 3,
//    "scratch": [{"name": "stage", "blocks": 3, "depth": 2, "place": "host"}],
//    "channels": [{"writer": [0, 0], "readers": [[1, 0]]}],
//    "programs": [[{"need": "reduce",
//                   "steps": [{"kind": "send", "from": [["input", 0]], "out": [0]}]}]]}
//
//   {"schema": 1, "division": "static", "strands": [{"schedule": {...},
//                              "channels": [{"paths": ["shm"], "protocol": "slots", "slots": 2}],
//                              "lanes": [[{"engine": "cpu", "burst": 1}]],
//                              "tile_bytes": 65536, "width": 1, "share": 1}]}
//
// programs[rank][lane]; writer, readers: [rank, lane]; blocks: [buffer, index]; after: [lane,
// step]. Fields of a step, single_hop of a channel, and varying of a schedule may be missing when
// they are empty or false.
#pragma once

#include "base/json.hpp"
#include "schedule/plan.hpp"

#include <string_view>

namespace sennit {

inline constexpr int kScheduleSchema = 1;

Json to_json(const Schedule& schedule);
Json to_json(const Plan& plan);

// The inverse of dump_json(to_json(...)). The result passes check_structure. A failure is
// kInvalidArgument and names the place: "file:line:column" of a syntax error, else the path of the
// value ("plan.json.strands[0].width").
Result<Schedule> schedule_from_json(std::string_view text, std::string_view file_name);
Result<Plan> plan_from_json(std::string_view text, std::string_view file_name);

}  // namespace sennit
