// The calls of a DeviceComm in which kernels run a schedule step by step.
#include "comm/device/device_comm.hpp"
#include "exec/sm/direct_kernels.hpp"

#include <algorithm>
#include <utility>

namespace sennit {

// Kernels take it by value.
static_assert(sizeof(sm::StepCall) <= 32'764, "the parameters of a kernel have no more room");

Result<const DeviceComm::Stepping*> DeviceComm::find_stepping(const Operation& operation,
                                                              const DeviceChoice& choice) {
  const Key key = key_of(operation, choice);
  if (const auto known = steppings_.find(key); known != steppings_.end()) {
    return &known->second;
  }
  SENNIT_ASSIGN_OR_RETURN(const Proved proved, prove(operation, choice));
  const Plan& plan = *proved.plan;
  Stepping stepping{.program = nullptr,
                    .algorithm = choice.algorithm->name,
                    .problem = plan.problem(),
                    .plan_hash = plan_hash(plan),
                    .may_be_in_place = proved.proof.in_place,
                    .is_reproducible = proved.proof.reproducible};
  // Each rank has a program of its own, for which there may be no room. So that all refuse alike,
  // each compiles those of all.
  for (int place = 0; place < plan.problem().ranks; ++place) {
    SENNIT_ASSIGN_OR_RETURN(auto program, sm::compile_steps(plan.strands.front(), place));
    if (place == key.place) {
      stepping.program = std::move(program);
    }
  }
  return &steppings_.emplace(key, std::move(stepping)).first->second;
}

Status DeviceComm::check_steps(const Operation& operation, const Stepping& stepping) const {
  const bool needs_rank_order =
      is_reduction(operation.collective) && (operation.wishes.rank_order || options_.reproducible);
  if (needs_rank_order && !stepping.is_reproducible) {
    return fail(Code::kUnsupported,
                "{} {} on {} ranks does not reduce all contributions in one step in the order of "
                "ranks, which `reproducible` needs",
                name(operation.collective),
                stepping.algorithm,
                world_.size());
  }
  if (!stepping.may_be_in_place && is_in_place(operation, world_.rank(), world_.size())) {
    return fail(Code::kUnsupported,
                "{} {} on {} ranks is not proved in place, and GPU ranks do not copy inputs; give "
                "it buffers apart",
                name(operation.collective),
                stepping.algorithm,
                world_.size());
  }
  return {};
}

Status DeviceComm::run_steps(const Call& call, const DeviceChoice& choice) {
  SENNIT_ASSIGN_OR_RETURN(const Stepping* const stepping, find_stepping(call.operation, choice));
  // In place is a matter of this rank alone. Ranks that do not refuse wait for those that do, and
  // hear of it by what is announced; where all refuse, all go on.
  if (const Status refusal = check_steps(call.operation, *stepping); !refusal.ok()) {
    announce(call.operation, CallWords::kRefused);
    return refusal;
  }
  announce(call.operation, stepping->plan_hash);
  return launch_steps(call, *stepping);
}

Status DeviceComm::launch_steps(const Call& call, const Stepping& stepping) {
  const Operation& op = call.operation;
  sm::StepCall steps;
  steps.program = *stepping.program;
  steps.input = static_cast<const std::byte*>(op.send);
  steps.output = static_cast<std::byte*>(op.recv);
  steps.scratch = memory_->step_scratch();
  steps.calls = memory_->step_calls();
  steps.board = memory_->board_on_device();
  for (int peer = 0; peer < world_.size(); ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    const DeviceMemory::Mailbox inbox = memory_->mailbox(peer, world_.rank());
    steps.inbox[at] = inbox.memory;
    steps.outbox[at] = memory_->mailbox(world_.rank(), peer).memory;
    steps.mailboxes[at] = inbox.shape;
  }
  steps.fingerprint = fingerprint_of(words_of(op, stepping.plan_hash));
  steps.deadline_ns = deadline_ns(op);
  steps.scalar = op.scaling.scalar;
  steps.scalar_on_device = static_cast<const std::byte*>(op.scalar_on_device);
  const sm::Elements elements{op.count, static_cast<std::int64_t>(size_bytes(op.dtype))};
  const sm::StepLimits limits{.blocks = std::min(memory_->block_limit(), memory_->step_blocks()),
                              .scratch_bytes = DeviceMemory::kStepScratchBytes,
                              .slot_bytes = {memory_->slot_bytes(sm::MailPlace::kDevice),
                                             memory_->slot_bytes(sm::MailPlace::kHost)}};
  SENNIT_RETURN_IF_ERROR(sm::bind(stepping.problem, elements, limits, steps));  // alike on all
  constexpr auto kKind = sm::KernelKind::kSteps;
  const Status launched =
      driver_.launch(is_reduction(op.collective) ? sm::reducing_kernel(kKind, op.dtype, op.op)
                                                 : sm::moving_kernel(kKind),
                     {.blocks = static_cast<unsigned>(steps.blocks), .threads = sm::kThreads},
                     &steps,
                     call.stream);
  return launched.ok() ? launched : give_up(launched);
}

}  // namespace sennit
