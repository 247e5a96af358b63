// Executables: those of one communicator of GPU ranks, each made and proved when it is first
// needed.
#pragma once

#include "exec/executable.hpp"
#include "exec/gpu_context.hpp"

#include <map>
#include <memory>

namespace sennit {

namespace stream {
struct PlanProgram;
}

// `groups`: of the ranks, for algorithms that look at them.
Shape shape_of(const Operation& operation, int ranks, const std::vector<std::vector<int>>& groups);

class Executables {
 public:
  // `context` outlives the result. `rank` of `ranks` is this one.
  Executables(GpuContext& context, int rank, int ranks)
      : context_(context), rank_(rank), ranks_(ranks) {}

  // Of a call by this choice; valid as long as this object. A refusal is the same on all ranks.
  Result<Executable*> find(const Operation& operation, const DeviceChoice& choice);

  // The proof alone of a call that is made of messages, which have executables of their own.
  Result<const ProvedPlan*> find_proof(const Operation& operation, const DeviceChoice& choice);

  // Of a message that copy engines run.
  struct Copies {
    const stream::PlanProgram* program = nullptr;
    std::uint64_t hash = 0;
  };
  Result<Copies> find_copies(const Operation& operation, const DeviceChoice& choice);

 private:
  Result<Executable*> find(const PlanKey& key, const Operation& operation);
  Result<ProvedPlan> prove(const PlanKey& key, const Operation& operation) const;
  [[nodiscard]] PlanKey key_of(const Operation& operation, const DeviceChoice& choice) const;

  GpuContext& context_;
  int rank_;
  int ranks_;
  std::map<PlanKey, std::unique_ptr<Executable>> known_;
  std::map<PlanKey, ProvedPlan> proofs_;
};

}  // namespace sennit
