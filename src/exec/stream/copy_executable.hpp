// CopyExecutable: a plan whose strands copy engines run, over NVLink, through pinned host memory,
// or both; also one end of a message (exec/stream/message_copies.hpp).
#pragma once

#include "exec/executable.hpp"
#include "exec/stream/copy_engines.hpp"

#include <memory>

namespace sennit::stream {

class CopyExecutable final : public Executable {
 public:
  // `copy_engines` outlives the result; null: the plan is compiled, and cannot be run.
  // kUnsupported, on all ranks, for plans that copy engines cannot run.
  static Result<std::unique_ptr<Executable>> compile(ProvedPlan proved,
                                                     const PlanKey& key,
                                                     CopyEngines* copy_engines);

  [[nodiscard]] const PlanProgram& program() const { return program_; }

  [[nodiscard]] std::uint64_t hash_of(const sennit::Operation& operation) const override;
  Result<Lack> enqueue(const GpuCall& call) override;

 private:
  struct Facts {
    bool needs_rings = false;
    bool is_uniform = false;  // see KnownBuffers
  };
  CopyExecutable(ProvedPlan proved, PlanProgram program, Facts facts, CopyEngines* copy_engines)
      : Executable(std::move(proved)),
        program_(std::move(program)),
        facts_(facts),
        copy_engines_(copy_engines) {}

  PlanProgram program_;
  Facts facts_;
  CopyEngines* copy_engines_;
};

}  // namespace sennit::stream
