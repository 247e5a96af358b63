// Scaling: the pass that says which steps of a schedule scale, for operators that do.
//
// `pre` (premul_sum) multiplies contributions: every step that reads an input block has it, so a
// contribution is scaled, and rounded, by its own rank and before anything is added to it.
// `post` (avg) finishes sums: every step whose result is the first value with all contributions.
// A step scales by what the call says; the schedule knows no factor.
#pragma once

#include "schedule/schedule.hpp"

namespace sennit {

struct ScaledParts {
  bool contributions = false;
  bool sums = false;

  bool operator==(const ScaledParts&) const = default;
  auto operator<=>(const ScaledParts&) const = default;
};

// Marks the steps of a schedule that reduces. kUnsupported where one step completes some of its
// blocks and not others, so that no mark would fit; kNotProved where steps wait in a circle.
Result<Schedule> mark_scaling(Schedule schedule, const ScaledParts& parts);

}  // namespace sennit
