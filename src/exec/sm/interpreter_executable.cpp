#include "exec/sm/interpreter_executable.hpp"

#include <utility>

namespace sennit::sm {

// Kernels take it by value.
static_assert(sizeof(StepCall) <= 32'764, "the parameters of a kernel have no more room");

namespace {

Elements elements_of(const Operation& operation) {
  return {operation.count, static_cast<std::int64_t>(size_bytes(operation.dtype))};
}

}  // namespace

Result<std::unique_ptr<Executable>> InterpreterExecutable::compile(ProvedPlan proved,
                                                                   const PlanKey& key,
                                                                   Context& context) {
  // Each rank has a program of its own, for which there may be no room. So that all refuse
  // together, each compiles those of all.
  std::unique_ptr<const StepProgram> mine;
  for (int place = 0; place < proved.plan->problem().ranks; ++place) {
    SENNIT_ASSIGN_OR_RETURN(auto program, compile_steps(proved.plan->strands.front(), place));
    if (place == key.place) {
      mine = std::move(program);
    }
  }
  return std::unique_ptr<Executable>(
      new InterpreterExecutable(std::move(proved), std::move(mine), context));
}

Status InterpreterExecutable::refuses(const Operation& operation) const {
  const Schedule& schedule = *plan().strands.front().schedule;
  const int ranks = context_.world.size();
  const bool needs_rank_order = is_reduction(operation.collective) &&
                                (operation.request.rank_order || context_.facts.reproducible);
  if (needs_rank_order && !proof().reproducible) {
    return fail(Code::kUnsupported,
                "{} {} on {} ranks does not reduce all contributions in one step in the order of "
                "ranks, which `reproducible` needs",
                name(operation.collective),
                schedule.algorithm,
                ranks);
  }
  if (!may_be_in_place() && is_in_place(operation, context_.world.rank(), ranks)) {
    return fail(Code::kUnsupported,
                "{} {} on {} ranks is not proved in place, and GPU ranks do not copy inputs; give "
                "separate buffers",
                name(operation.collective),
                schedule.algorithm,
                ranks);
  }
  // What has no room has none on any rank: no reason to give the communicator up.
  return tiling_of(plan().problem(),
                   elements_of(operation),
                   context_.limits.within(operation.request).steps,
                   *program_)
      .status();
}

Result<Lack> InterpreterExecutable::enqueue(const GpuCall& call) {
  const Operation& op = call.operation;
  const DeviceMemory& memory = context_.memory;
  StepCall steps;
  steps.program = *program_;
  steps.input = static_cast<const std::byte*>(op.send);
  steps.output = static_cast<std::byte*>(op.recv);
  steps.scratch = memory.step_scratch();
  steps.calls = memory.step_calls();
  steps.error_word = memory.error_word_on_device();
  for (int peer = 0; peer < memory.ranks(); ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    const DeviceMemory::Staging inbox = memory.staging(peer, memory.rank());
    steps.inbox[at] = inbox.memory;
    steps.outbox[at] = memory.staging(memory.rank(), peer).memory;
    steps.staging[at] = inbox.shape;
  }
  steps.fingerprint = fingerprint_of(words_of(op, hash()));
  steps.deadline_ns = call.deadline_ns();
  steps.scalar = op.scaling.scalar;
  steps.scalar_on_device = static_cast<const std::byte*>(op.scalar_on_device);
  SENNIT_RETURN_IF_ERROR(
      bind(plan().problem(), elements_of(op), context_.limits.within(op.request).steps, steps));
  constexpr auto kKind = KernelKind::kSteps;
  const void* kernel = moving_kernel(kKind);
  if (is_reduction(op.collective)) {
    SENNIT_ASSIGN_OR_RETURN(kernel, context_.kernels.reducer(kKind, op.dtype, op.op, call.stream));
  }
  SENNIT_RETURN_IF_ERROR(
      context_.driver.launch(kernel,
                             {.blocks = static_cast<unsigned>(steps.blocks), .threads = kThreads},
                             &steps,
                             call.stream));
  return Lack::kNothing;
}

}  // namespace sennit::sm
