// ProvedPlan: a plan together with its proof. Each structure is proved once in a process: ranks
// that are threads, and communicators of equal size, share the proof.
#pragma once

#include "schedule/plan.hpp"
#include "verify/verify.hpp"

#include <cstdint>
#include <memory>

namespace sennit {

struct ProvedPlan {
  std::shared_ptr<const Plan> plan;
  Proof proof;
  std::uint64_t hash = 0;  // plan_hash()
};

// kNotProved, naming the first defect, for a plan that the verifier refuses. From any thread.
Result<ProvedPlan> prove_once(std::shared_ptr<const Plan> plan);

}  // namespace sennit
