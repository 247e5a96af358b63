// ReadingExecutable: reductions whose inputs kernels read where they lie
// (exec/sm/reading_call.hpp).
#pragma once

#include "exec/executable.hpp"
#include "exec/sm/context.hpp"
#include "exec/sm/direct_program.hpp"
#include "exec/sm/reading_call.hpp"

#include <memory>

namespace sennit::sm {

class ReadingExecutable final : public Executable {
 public:
  // `context` outlives the result.
  static Result<std::unique_ptr<Executable>> compile(ProvedPlan proved,
                                                     const PlanKey& key,
                                                     Context& context);

  Result<Lack> enqueue(const GpuCall& call) override;

 private:
  ReadingExecutable(ProvedPlan proved, const DirectProgram& program, int readers, Context& context)
      : Executable(std::move(proved)), program_(program), readers_(readers), context_(context) {}

  Status find_buffers(const GpuCall& call, ReadingCall& reading);

  DirectProgram program_;
  int readers_;
  Context& context_;
};

}  // namespace sennit::sm
