#include "exec/proved_plan.hpp"

#include <map>
#include <mutex>
#include <utility>

namespace sennit {

Result<ProvedPlan> prove_once(std::shared_ptr<const Plan> plan) {
  static std::mutex mutex;
  static std::map<std::uint64_t, Proof> proofs;
  const std::uint64_t structure = structure_hash(*plan);
  const std::uint64_t hash = plan_hash(*plan);
  const std::scoped_lock lock(mutex);
  auto known = proofs.find(structure);
  if (known == proofs.end()) {
    SENNIT_ASSIGN_OR_RETURN(Proof proof, verify(*plan));
    known = proofs.emplace(structure, std::move(proof)).first;
  }
  return ProvedPlan{.plan = std::move(plan), .proof = known->second, .hash = hash};
}

}  // namespace sennit
