#include "exec/stream/copy_executable.hpp"

#include <utility>

namespace sennit::stream {

Result<std::unique_ptr<Executable>> CopyExecutable::compile(ProvedPlan proved,
                                                            const PlanKey& key,
                                                            CopyEngines* copy_engines) {
  // As every rank, so that all refuse together what one of them could not run.
  PlanProgram program;
  const bool is_led = proved.plan->strands.front().by_leader;  // one program has those of all ranks
  for (int place = 0; place < proved.plan->problem().ranks; ++place) {
    if (is_led && place != key.place) {
      continue;
    }
    SENNIT_ASSIGN_OR_RETURN(PlanProgram compiled, compile_plan(*proved.plan, place));
    if (place == key.place) {
      program = std::move(compiled);
    }
  }
  return std::unique_ptr<Executable>(new CopyExecutable(
      std::move(proved), std::move(program), key.choice.host_share > 0, copy_engines));
}

Result<Lack> CopyExecutable::enqueue(const GpuCall& call) {
  SENNIT_CHECK(copy_engines_ != nullptr, "plans for copy engines are chosen where there are some");
  const auto trouble = call.guard.trouble_of(call.operation);
  if (needs_rings_) {
    SENNIT_ASSIGN_OR_RETURN(const bool has_rings, copy_engines_->open_rings(call.stream, trouble));
    if (!has_rings) {
      return Lack::kHostRings;
    }
  }
  SENNIT_ASSIGN_OR_RETURN(const bool is_enqueued,
                          copy_engines_->run({.operation = call.operation,
                                              .program = program_,
                                              .stream = call.stream,
                                              .deadline_ms = call.deadline_ms(),
                                              .trouble = trouble}));
  return is_enqueued ? Lack::kNothing : Lack::kCopyEngines;
}

}  // namespace sennit::stream
