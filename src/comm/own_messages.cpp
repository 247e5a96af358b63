#include "comm/own_messages.hpp"

#include <algorithm>
#include <iterator>
#include <string>

namespace sennit {
namespace {

std::string describe(const Operation& op) {
  return fmt::format("{} x {}{}",
                     op.count,
                     name(op.dtype),
                     op.tag == 0 ? "" : fmt::format(" with tag {}", op.tag));
}

Status lacks_its_other_end(const Operation& op) {
  return fail(Code::kInvalidArgument,
              "a {} of {} {} rank {} itself has no {} in its group; put both into one group",
              name_of(op),
              describe(op),
              op.is_send ? "to" : "from",
              op.peer,
              op.is_send ? "recv" : "send");
}

}  // namespace

Result<std::vector<OwnMessage>> pair_own_messages(std::span<const OwnEnd> ends) {
  std::vector<OwnMessage> messages;
  std::vector<OwnEnd> recvs;
  std::ranges::copy_if(
      ends, std::back_inserter(recvs), [](const OwnEnd& end) { return !end.operation->is_send; });
  for (const OwnEnd& send : ends) {
    const Operation& from = *send.operation;
    if (!from.is_send) {
      continue;
    }
    const auto recv = std::ranges::find_if(recvs, [&](const OwnEnd& end) {
      return end.comm == send.comm && end.operation->tag == from.tag;
    });
    if (recv == recvs.end()) {
      return lacks_its_other_end(from);
    }
    const Operation& to = *recv->operation;
    if (from.count != to.count || from.dtype != to.dtype) {
      return fail(Code::kInvalidArgument,
                  "rank {} sends {} to itself, but expects {}",
                  from.peer,
                  describe(from),
                  describe(to));
    }
    messages.push_back({.send = send.place, .recv = recv->place});
    recvs.erase(recv);
  }
  if (!recvs.empty()) {
    return lacks_its_other_end(*recvs.front().operation);
  }
  return messages;
}

}  // namespace sennit
