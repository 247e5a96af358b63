// DirectExecutable: calls of one hop or two whose data travels in packets
// (exec/sm/direct_call.hpp); one kernel, that of small calls where it can run the call.
#pragma once

#include "exec/executable.hpp"
#include "exec/sm/context.hpp"
#include "exec/sm/direct_program.hpp"

#include <memory>

namespace sennit::sm {

// The call in packets, on at most so many thread blocks; `hash` is that of its plan.
DirectCall direct_call_of(const DirectProgram& program,
                          Packets packets,
                          const GpuCall& call,
                          std::uint64_t hash,
                          int most_blocks,
                          const Context& context);

class DirectExecutable final : public Executable {
 public:
  // `context` outlives the result. kUnsupported for schedules that the direct kernel cannot run.
  static Result<std::unique_ptr<Executable>> compile(ProvedPlan proved,
                                                     const PlanKey& key,
                                                     Context& context);

  [[nodiscard]] bool normalises(const Operation& operation) const override;
  Result<Lack> enqueue(const GpuCall& call) override;

 private:
  DirectExecutable(ProvedPlan proved,
                   const DirectProgram& program,
                   Packets packets,
                   Context& context)
      : Executable(std::move(proved)), program_(program), packets_(packets), context_(context) {}

  Status launch_norming(const GpuCall& call, const DirectCall& direct);

  DirectProgram program_;
  Packets packets_;
  Context& context_;
};

}  // namespace sennit::sm
