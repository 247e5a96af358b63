#include "exec/sm/one_sided_executable.hpp"

#include <utility>

namespace sennit::sm {

Result<std::unique_ptr<Executable>> OneSidedExecutable::compile(ProvedPlan proved,
                                                                const PlanKey& key,
                                                                Context& context,
                                                                PeerLauncher& launcher) {
  SENNIT_ASSIGN_OR_RETURN(const DirectProgram program,
                          compile_direct(*proved.plan->strands.front().schedule, key.place));
  return std::unique_ptr<Executable>(
      new OneSidedExecutable(std::move(proved), program, context, launcher));
}

Status OneSidedExecutable::refuses(const Operation& op) const {
  if (!may_be_in_place() && is_in_place(op, context_.world.rank(), context_.world.size())) {
    return fail(Code::kUnsupported,
                "{} cannot run in place by protocol {}: pass separate buffers, or leave `protocol` "
                "unset",
                name(op.collective),
                name(Protocol::kDirectPut));
  }
  return {};
}

// A block that stays on this rank is a message to itself, but where the call is in place. Blocks
// are reported as messages, too: where they travel in packets they share buffers and flags with
// sends, so both ends of a pair must have all of them in one order.
std::vector<KernelMessage> OneSidedExecutable::messages_of(const GpuCall& call) const {
  const Operation& op = call.operation;
  DirectCall blocks;
  blocks.input = static_cast<const std::byte*>(op.send);
  blocks.output = static_cast<std::byte*>(op.recv);
  bind(program_, op.count, static_cast<std::int64_t>(size_bytes(op.dtype)), blocks);
  const CallWords words = words_of(op, hash());
  const int rank = context_.world.rank();
  std::vector<KernelMessage> messages;
  const auto add = [&](int peer, bool is_send, ByteRange range) {
    context_.ledger.report_message(peer, is_send, words);
    messages.push_back(
        {.operation = &op,
         .peer = peer,
         .is_send = is_send,
         .range = range,
         .packets = packets_of(protocol_of_message(range.length, context_.facts), context_.facts),
         .takes_part = true,
         .fingerprint = fingerprint_of(words),
         .deadline_ns = call.deadline_ns(),
         .block_limit = launcher_.blocks_of_message(op, launcher_.order_of_blocks())});
  };
  const auto has = [](std::uint32_t set, int peer) { return ((set >> peer) & 1U) != 0; };
  for (int peer = 0; peer < context_.world.size(); ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    if (peer == rank && blocks.own) {
      add(peer, true, blocks.own_from);
      add(peer, false, blocks.own_to);
    }
    if (has(blocks.push_to, peer)) {
      add(peer, true, blocks.push[at]);
    }
    if (has(blocks.arrive_from[0], peer)) {
      add(peer, false, blocks.arrive[0][at]);
    }
  }
  return messages;
}

Result<Lack> OneSidedExecutable::enqueue(const GpuCall& call) {
  SENNIT_RETURN_IF_ERROR(
      launcher_.launch(messages_of(call), call.stream, launcher_.order_of_blocks()));
  return Lack::kNothing;
}

}  // namespace sennit::sm
