// The v-forms of a DeviceComm. Each block is a message of the length that both its ends know, goes
// the way of a send of that length, and is compared with what the other end meant as sends are; a
// rank's messages are one launch.
#include "comm/device/device_comm.hpp"

namespace sennit {

KernelMessage DeviceComm::varying_message(const Operation& operation,
                                          const Putting& putting,
                                          int peer,
                                          bool is_send) {
  const auto& blocks = is_send ? operation.inputs : operation.outputs;
  const std::int64_t length = is_send ? sent_to(operation, world_.rank(), peer)
                                      : expected_from(operation, world_.rank(), peer);
  const auto element_bytes = static_cast<std::int64_t>(size_bytes(operation.dtype));
  const Protocol protocol = protocol_of_block(length * element_bytes, operation.wishes, facts_);
  const bool takes_part = protocol == Protocol::kDirectPut;
  // Kernels of another way would not meet, nor those of another length.
  CallWords words = words_of(operation, putting.plan_hash + static_cast<std::uint64_t>(protocol));
  words.count = static_cast<std::uint64_t>(length);
  log(peer, is_send, words);
  KernelMessage message{
      .operation = &operation,
      .peer = peer,
      .is_send = is_send,
      .packets =
          packets_of(takes_part ? protocol_of_message(length * element_bytes, facts_) : protocol),
      .takes_part = takes_part,
      .fingerprint = fingerprint_of(words),
      .block_limit = blocks_of_each(world_.size(), room_of_groups())};
  if (length > 0) {
    const ElementRange& block = blocks[blocks.size() > 1 ? static_cast<std::size_t>(peer) : 0];
    message.range = {.begin = block.begin * element_bytes, .length = length * element_bytes};
  }
  return message;
}

// With every rank in both roles, even where there is nothing to send: so the logs of both ends of a
// pair stay in step, and tell where one end means another length.
std::vector<KernelMessage> DeviceComm::varying_messages(const Operation& operation,
                                                        const Putting& putting) {
  std::vector<KernelMessage> messages;
  for (int peer = 0; peer < world_.size(); ++peer) {
    const KernelMessage sent = varying_message(operation, putting, peer, true);
    const KernelMessage received = varying_message(operation, putting, peer, false);
    const bool is_there =
        peer == world_.rank() && static_cast<const std::byte*>(operation.send) + sent.range.begin ==
                                     static_cast<std::byte*>(operation.recv) + received.range.begin;
    for (const KernelMessage& message : {sent, received}) {
      if (message.range.length > 0 && !is_there) {
        messages.push_back(message);
      }
    }
  }
  return messages;
}

Status DeviceComm::exchange_varying(const Call& call) {
  const Operation& op = call.operation;
  SENNIT_ASSIGN_OR_RETURN(const DeviceChoice choice, choose(op, facts_));
  SENNIT_ASSIGN_OR_RETURN(const Putting* const putting, find_putting(op, choice));
  announce(op, putting->plan_hash);
  const std::vector<KernelMessage> messages = varying_messages(op, *putting);
  const Status launched =
      messages.empty() ? Status() : launch_pairs(messages, call.stream, Order::kLanes);
  return launched.ok() ? launched : give_up(launched);
}

}  // namespace sennit
