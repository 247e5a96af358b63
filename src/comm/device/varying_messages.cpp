#include "comm/device/varying_messages.hpp"

#include <utility>

namespace sennit {
namespace {

ElementRange block_of(const std::vector<ElementRange>& blocks, int peer, std::int64_t length) {
  if (length == 0) {
    return {};
  }
  return blocks[blocks.size() > 1 ? static_cast<std::size_t>(peer) : 0];
}

Operation end_of_message(const Operation& call, int peer, const ElementRange& block) {
  Operation message;
  message.collective = Collective::kSendRecv;
  message.count = block.length;
  message.dtype = call.dtype;
  message.peer = peer;
  message.request = call.request;
  message.request.algorithm.clear();
  message.deadline_s = call.deadline_s;
  message.stands_for = words_of(call, 0);
  message.stands_for->count = static_cast<std::uint64_t>(block.length);
  return message;
}

}  // namespace

std::vector<Operation> messages_of_varying(const Operation& operation, int rank, int ranks) {
  const auto element = static_cast<std::int64_t>(size_bytes(operation.dtype));
  std::vector<Operation> messages;
  messages.reserve(2 * static_cast<std::size_t>(ranks));
  for (int peer = 0; peer < ranks; ++peer) {
    const ElementRange sent = block_of(operation.inputs, peer, sent_to(operation, rank, peer));
    const ElementRange expected =
        block_of(operation.outputs, peer, expected_from(operation, rank, peer));
    Operation send = end_of_message(operation, peer, sent);
    send.is_send = true;
    send.send = static_cast<const std::byte*>(operation.send) + sent.begin * element;
    Operation recv = end_of_message(operation, peer, expected);
    recv.recv = static_cast<std::byte*>(operation.recv) + expected.begin * element;
    if (peer != rank || send.send != recv.recv) {
      messages.push_back(std::move(send));
      messages.push_back(std::move(recv));
    }
  }
  return messages;
}

}  // namespace sennit
