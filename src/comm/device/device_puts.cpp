// The collectives of a DeviceComm whose ranks store blocks in each other's outputs. Each block is a
// message that its receiver offers a place for (memory/message_put.hpp), and a rank's messages are
// one launch, as those of a group are. docs/decisions/0031-collectives-by-messages.md says why.
#include "comm/device/device_comm.hpp"

namespace sennit {

Result<const DeviceComm::Putting*> DeviceComm::find_putting(const Operation& operation,
                                                            const DeviceChoice& choice) {
  const Key key = key_of(operation, choice);
  if (const auto known = puttings_.find(key); known != puttings_.end()) {
    return &known->second;
  }
  SENNIT_ASSIGN_OR_RETURN(const Proved proved, prove(operation, choice));
  const Plan& plan = *proved.plan;
  SENNIT_ASSIGN_OR_RETURN(const sm::DirectProgram program,
                          sm::compile_direct(*plan.strands.front().schedule, key.place));
  return &puttings_.emplace(key, Putting{program, plan_hash(plan), proved.proof.in_place})
              .first->second;
}

// With two ranks there is one wire to fill and a copy beside it.
DeviceComm::Order DeviceComm::order_of_blocks() const {
  return world_.size() > 2 ? Order::kBraid : Order::kLanes;
}

// What its blocks are to this rank. A block of its own is a message to itself, but in place. They
// are logged as messages, too: their packets share arenas and words with those of sends, so the
// ends of a pair must have all of them in one order.
std::vector<KernelMessage> DeviceComm::messages_of(const Operation& operation,
                                                   const Putting& putting) {
  sm::DirectCall call;
  call.input = static_cast<const std::byte*>(operation.send);
  call.output = static_cast<std::byte*>(operation.recv);
  const auto element_bytes = static_cast<std::int64_t>(size_bytes(operation.dtype));
  sm::bind(putting.program, operation.count, element_bytes, call);
  const CallWords words = words_of(operation, putting.plan_hash);
  const std::uint32_t fingerprint = fingerprint_of(words);
  const int block_limit = order_of_blocks() == Order::kBraid
                              ? blocks_of_braid(world_.size(), room_of_groups())
                              : blocks_of_each(world_.size(), room_of_groups());
  std::vector<KernelMessage> messages;
  const auto add = [&](int peer, bool is_send, sm::ByteRange range) {
    log(peer, is_send, words);
    messages.push_back({.operation = &operation,
                        .peer = peer,
                        .is_send = is_send,
                        .range = range,
                        .packets = packets_of(protocol_of_message(range.length, facts_)),
                        .takes_part = true,
                        .fingerprint = fingerprint,
                        .block_limit = block_limit});
  };
  const auto has = [](std::uint32_t set, int rank) { return ((set >> rank) & 1U) != 0; };
  for (int peer = 0; peer < world_.size(); ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    if (peer == world_.rank() && call.own) {
      add(peer, true, call.own_from);
      add(peer, false, call.own_to);
    }
    if (has(call.push_to, peer)) {
      add(peer, true, call.push[at]);
    }
    if (has(call.arrive_from[0], peer)) {
      add(peer, false, call.arrive[0][at]);
    }
  }
  return messages;
}

// False: packets carry it, as it is in place where it may not be. Ranks that are not in place tell
// a mismatch, since they have another plan or hear that this one has refused.
Result<bool> DeviceComm::put(const Call& call, const DeviceChoice& choice) {
  const Operation& op = call.operation;
  SENNIT_ASSIGN_OR_RETURN(const Putting* const putting, find_putting(op, choice));
  if (!putting->may_be_in_place && is_in_place(op, world_.rank(), world_.size())) {
    if (op.wishes.protocol.empty()) {
      return false;
    }
    announce(op, CallWords::kRefused);
    return fail(Code::kUnsupported,
                "{} cannot go by {} in place; give it buffers apart, or wish for no protocol",
                name(op.collective),
                op.wishes.protocol);
  }
  announce(op, putting->plan_hash);
  const Status launched = launch_pairs(messages_of(op, *putting), call.stream, order_of_blocks());
  return launched.ok() ? Result<bool>(true) : give_up(launched);
}

// Of a call that all ranks know to be none for copy engines after all. What may not be in place no
// rank tries, since of ranks in place it would be none either, which the others do not know.
Result<bool> DeviceComm::put_instead(const Call& call) {
  const Operation& op = call.operation;
  DeviceFacts facts = facts_;
  facts.copy_engines = false;
  const Result<DeviceChoice> choice = choose(op, facts);
  if (!op.wishes.protocol.empty() || !choice.ok() || choice->protocol != Protocol::kDirectPut) {
    return false;
  }
  SENNIT_ASSIGN_OR_RETURN(const Putting* const putting, find_putting(op, *choice));
  return putting->may_be_in_place ? put(call, *choice) : Result<bool>(false);
}

}  // namespace sennit
