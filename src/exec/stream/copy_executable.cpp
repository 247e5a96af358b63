#include "exec/stream/copy_executable.hpp"

#include <optional>
#include <utility>

namespace sennit::stream {

Result<std::unique_ptr<Executable>> CopyExecutable::compile(ProvedPlan proved,
                                                            const PlanKey& key,
                                                            CopyEngines* copy_engines) {
  // As every rank, so that all refuse together what one of them could not run.
  PlanProgram program;
  const bool needs_rings = key.choice.host_share > 0;
  bool is_uniform = !needs_rings;
  std::optional<bool> is_staged;
  const bool is_led = proved.plan->strands.front().by_leader;  // one program has those of all ranks
  for (int place = 0; place < proved.plan->problem().ranks; ++place) {
    if (is_led && place != key.place) {
      continue;
    }
    SENNIT_ASSIGN_OR_RETURN(PlanProgram compiled, compile_plan(*proved.plan, place));
    is_staged = is_staged.value_or(compiled.exposes_staging());
    // Whether a rank works in place is its own matter, but for an all_to_all.
    is_uniform = is_uniform && compiled.alone() != nullptr && !compiled.has_input_read() &&
                 compiled.exposes_staging() == *is_staged &&
                 (compiled.may_be_in_place() || key.collective == Collective::kAllToAll);
    if (place == key.place) {
      program = std::move(compiled);
    }
  }
  return std::unique_ptr<Executable>(
      new CopyExecutable(std::move(proved),
                         std::move(program),
                         {.needs_rings = needs_rings, .is_uniform = is_uniform},
                         copy_engines));
}

// Ranks that do not meet would write elsewhere if a buffer of theirs lay at another place.
std::uint64_t CopyExecutable::hash_of(const sennit::Operation& operation) const {
  if (copy_engines_ == nullptr) {
    return hash();
  }
  const WindowPlace place = copy_engines_->known_place(
      {.operation = operation, .program = program_, .is_uniform = facts_.is_uniform});
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  return place.window == 0 ? hash() : (hash() ^ place.window) * kOdd + place.offset;
}

Result<Lack> CopyExecutable::enqueue(const GpuCall& call) {
  SENNIT_CHECK(copy_engines_ != nullptr, "plans for copy engines are chosen where there are some");
  const auto trouble = call.guard.trouble_of(call.operation);
  if (facts_.needs_rings) {
    SENNIT_ASSIGN_OR_RETURN(const bool has_rings, copy_engines_->open_rings(call.stream, trouble));
    if (!has_rings) {
      return Lack::kHostRings;
    }
  }
  SENNIT_ASSIGN_OR_RETURN(const bool is_enqueued,
                          copy_engines_->run({.operation = call.operation,
                                              .program = program_,
                                              .is_uniform = facts_.is_uniform,
                                              .stream = call.stream,
                                              .deadline_ms = call.deadline_ms(),
                                              .trouble = trouble}));
  return is_enqueued ? Lack::kNothing : Lack::kCopyEngines;
}

}  // namespace sennit::stream
