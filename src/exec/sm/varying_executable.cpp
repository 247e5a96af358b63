#include "exec/sm/varying_executable.hpp"

#include "exec/sm/direct_program.hpp"

#include <utility>

namespace sennit::sm {

Result<std::unique_ptr<Executable>> VaryingExecutable::compile(ProvedPlan proved,
                                                               const PlanKey& key,
                                                               Context& context,
                                                               PeerLauncher& launcher) {
  SENNIT_RETURN_IF_ERROR(
      compile_direct(*proved.plan->strands.front().schedule, key.place).status());
  return std::unique_ptr<Executable>(new VaryingExecutable(std::move(proved), context, launcher));
}

KernelMessage VaryingExecutable::message_of(const GpuCall& call, int peer, bool is_send) const {
  const Operation& op = call.operation;
  const DeviceFacts& facts = context_.facts;
  const auto& blocks = is_send ? op.inputs : op.outputs;
  const std::int64_t length = is_send ? sent_to(op, context_.world.rank(), peer)
                                      : expected_from(op, context_.world.rank(), peer);
  const auto element_bytes = static_cast<std::int64_t>(size_bytes(op.dtype));
  const Protocol protocol = protocol_of_block(length * element_bytes, op.request, facts);
  const bool is_one_sided = protocol == Protocol::kDirectPut;
  // Kernels of another protocol, or another length, must not take each other's packets.
  CallWords words = words_of(op, hash() + static_cast<std::uint64_t>(protocol));
  words.count = static_cast<std::uint64_t>(length);
  context_.ledger.report_message(peer, is_send, words);
  const Protocol of_packets =
      is_one_sided ? protocol_of_message(length * element_bytes, facts) : protocol;
  KernelMessage message{
      .operation = &op,
      .peer = peer,
      .is_send = is_send,
      .packets = packets_of(of_packets, facts),
      .takes_part = is_one_sided,
      .fingerprint = fingerprint_of(words),
      .deadline_ns = call.deadline_ns(),
      .block_limit = launcher_.blocks_of_message(op, PeerLauncher::Order::kLanes)};
  if (length > 0) {
    const ElementRange& block = blocks[blocks.size() > 1 ? static_cast<std::size_t>(peer) : 0];
    message.range = {.begin = block.begin * element_bytes, .length = length * element_bytes};
  }
  return message;
}

// With every rank in both directions, even where there is nothing to send: so the logs of both ends
// of a pair stay in step, and show where one end expects another length.
std::vector<KernelMessage> VaryingExecutable::messages_of(const GpuCall& call) const {
  const Operation& op = call.operation;
  std::vector<KernelMessage> messages;
  for (int peer = 0; peer < context_.world.size(); ++peer) {
    const KernelMessage sent = message_of(call, peer, true);
    const KernelMessage received = message_of(call, peer, false);
    const bool is_in_its_place = peer == context_.world.rank() &&
                                 static_cast<const std::byte*>(op.send) + sent.range.begin ==
                                     static_cast<std::byte*>(op.recv) + received.range.begin;
    for (const KernelMessage& message : {sent, received}) {
      if (message.range.length > 0 && !is_in_its_place) {
        messages.push_back(message);
      }
    }
  }
  return messages;
}

Result<Lack> VaryingExecutable::enqueue(const GpuCall& call) {
  const std::vector<KernelMessage> messages = messages_of(call);
  if (!messages.empty()) {
    SENNIT_RETURN_IF_ERROR(launcher_.launch(messages, call.stream, PeerLauncher::Order::kLanes));
  }
  return Lack::kNothing;
}

}  // namespace sennit::sm
