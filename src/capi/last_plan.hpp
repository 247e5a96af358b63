// What a call of host ranks ran as, in the words of `sennit show`.
#pragma once

#include "exec/cpu/program.hpp"
#include "schedule/plan.hpp"

#include <string_view>
#include <vector>

namespace sennit {

struct PlanSummary {
  std::string_view algorithm;
  Protocol protocol = Protocol::kSlots;
  std::vector<std::string_view> paths;  // each once
};

// Valid as long as the program is.
PlanSummary summary_of(const Program& program);

}  // namespace sennit
