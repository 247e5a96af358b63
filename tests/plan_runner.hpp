// For tests: runs a plan on the host executor, all ranks in one thread, with random delays. What a
// seed did once it does again; and a plan that hangs is known to hang, without a clock.
#pragma once

#include "schedule/plan.hpp"
#include "verify/verify.hpp"

#include <cstdint>
#include <string>

namespace sennit::tests {

struct RunOptions {
  Dtype dtype = Dtype::kInt64;  // or kFloat32
  bool in_place = false;        // every rank
  unsigned seed = 0;            // of the delays, and of lengths that vary
};

// The first defect: a hang, a refusal to compile, a wrong element, or in all_reduce of float32
// results that differ in a bit. Empty when everything came out right. A plan that the proof calls
// reproducible must give the bits of the sum in rank order.
std::string run_plan(const Plan& plan, const Proof& proof, const RunOptions& options);

}  // namespace sennit::tests
