// Pictures of schedules, as SVG that needs nothing else: no script, no font file, no style sheet.
#pragma once

#include "schedule/schedule.hpp"

#include <string>

namespace sennit {

// The space-time diagram of one tile: a row for each lane of each rank, logical time to the right,
// a box for each step, an arrow for each message. Kinds differ by label and pattern as well as
// colour (Okabe and Ito's palette), so that it reads in print and without colour vision. The full
// text of a step is its tooltip. `schedule` must pass check_structure.
std::string space_time_svg(const Schedule& schedule);

}  // namespace sennit
