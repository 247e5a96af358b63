// What a simulated run looks like: for Perfetto (ui.perfetto.dev) or chrome://tracing, and as a
// picture.
#pragma once

#include "base/json.hpp"
#include "sim/simulate.hpp"

#include <string>
#include <string_view>

namespace sennit {

// Chrome's trace event format: a process for each rank, a thread for each lane.
Json trace_json(const Plan& plan, const Simulation& run);

// Time to the right, a row for each lane of each rank, a bar for each step of each tile, and below
// it how busy each link was. SVG that needs nothing else. Ranks beyond `max_ranks` are left out.
// `of` says of what, and where: "64 MB on thetagpu".
std::string timeline_svg(const Plan& plan,
                         const Simulation& run,
                         std::string_view of,
                         int max_ranks = 32);

}  // namespace sennit
