// InterpreterExecutable: a kernel runs the schedule step by step, whatever its hops
// (exec/sm/step_call.hpp).
#pragma once

#include "exec/executable.hpp"
#include "exec/sm/context.hpp"
#include "exec/sm/step_program.hpp"

#include <memory>

namespace sennit::sm {

class InterpreterExecutable final : public Executable {
 public:
  // `context` outlives the result. kUnsupported where the program of some rank has no room in the
  // parameters of a kernel: on all ranks.
  static Result<std::unique_ptr<Executable>> compile(ProvedPlan proved,
                                                     const PlanKey& key,
                                                     Context& context);

  [[nodiscard]] Status refuses(const Operation& operation) const override;
  Result<Lack> enqueue(const GpuCall& call) override;

 private:
  InterpreterExecutable(ProvedPlan proved,
                        std::unique_ptr<const StepProgram> program,
                        Context& context)
      : Executable(std::move(proved)), program_(std::move(program)), context_(context) {}

  std::unique_ptr<const StepProgram> program_;
  Context& context_;
};

}  // namespace sennit::sm
