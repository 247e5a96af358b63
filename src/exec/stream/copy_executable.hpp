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

  Result<Lack> enqueue(const GpuCall& call) override;

 private:
  CopyExecutable(ProvedPlan proved,
                 PlanProgram program,
                 bool needs_rings,
                 CopyEngines* copy_engines)
      : Executable(std::move(proved)),
        program_(std::move(program)),
        needs_rings_(needs_rings),
        copy_engines_(copy_engines) {}

  PlanProgram program_;
  bool needs_rings_;
  CopyEngines* copy_engines_;
};

}  // namespace sennit::stream
