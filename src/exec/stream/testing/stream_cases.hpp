// For tests: every program that copy engines run, of all algorithms there are.
#pragma once

#include "exec/stream/plan_program.hpp"
#include "path/host/rings.hpp"
#include "schedule/plan.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace sennit::stream {

struct StreamCase {
  std::string name;
  Plan plan;
  std::vector<PlanProgram> programs;  // by rank

  [[nodiscard]] int ranks() const { return plan.problem().ranks; }
  [[nodiscard]] bool has_slots() const;
};

// Of one strand each and of two, with `ring` for what goes through host memory, and at most so many
// roots. Plans that copy engines cannot run are left out.
std::vector<StreamCase> stream_cases(int ranks, const host::RingShape& ring, int most_roots);

}  // namespace sennit::stream
