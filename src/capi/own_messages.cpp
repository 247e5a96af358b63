#include "capi/own_messages.hpp"

#include <algorithm>
#include <cstring>

namespace sennit {
namespace {

std::string describe(const Operation& op) {
  return fmt::format("{} x {}{}",
                     op.count,
                     name(op.dtype),
                     op.tag == 0 ? "" : fmt::format(" with tag {}", op.tag));
}

// The places of the recvs of each rank from itself, in their order.
std::vector<std::size_t> places_of_recvs(const std::vector<Group::Entry>& entries) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (is_own_message(entries[i]) && !entries[i].operation.is_send) {
      places.push_back(i);
    }
  }
  return places;
}

Status lacks_its_other_end(const Group::Entry& entry) {
  const bool is_send = entry.operation.is_send;
  return fail(Code::kInvalidArgument,
              "the group has a {} of {} {} rank {} itself, but not its {}",
              name_of(entry.operation),
              describe(entry.operation),
              is_send ? "to" : "from",
              entry.operation.peer,
              is_send ? "recv" : "send");
}

}  // namespace

bool is_own_message(const Group::Entry& entry) {
  const Operation& op = entry.operation;
  return entry.comm->device == nullptr && op.collective == Collective::kSendRecv &&
         op.peer == entry.comm->comm->rank();
}

Result<std::vector<OwnMessage>> pair_own_messages(const std::vector<Group::Entry>& entries) {
  std::vector<OwnMessage> messages;
  std::vector<std::size_t> recvs = places_of_recvs(entries);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!is_own_message(entries[i]) || !entries[i].operation.is_send) {
      continue;
    }
    const auto recv = std::ranges::find_if(recvs, [&](std::size_t place) {
      return entries[place].comm == entries[i].comm &&
             entries[place].operation.tag == entries[i].operation.tag;
    });
    if (recv == recvs.end()) {
      return lacks_its_other_end(entries[i]);
    }
    const Operation& from = entries[i].operation;
    const Operation& to = entries[*recv].operation;
    if (from.count != to.count || from.dtype != to.dtype) {
      return fail(Code::kInvalidArgument,
                  "rank {} sends {} to itself, but expects {}",
                  from.peer,
                  describe(from),
                  describe(to));
    }
    messages.push_back({.send = i, .recv = *recv});
    recvs.erase(recv);
  }
  if (!recvs.empty()) {
    return lacks_its_other_end(entries[recvs.front()]);
  }
  return messages;
}

Result<std::shared_ptr<Work>> prepare_own_end(const Group::Entry& entry) {
  Communicator& comm = *entry.comm->comm;
  comm.calls().progress();  // hears of an abort
  SENNIT_RETURN_IF_ERROR(comm.failure());
  if (comm.world().my_line().state.load(std::memory_order_acquire) == RankState::kFinalized) {
    return fail(Code::kInvalidUsage,
                "{} on communicator '{}' after finalize",
                name_of(entry.operation),
                comm.config().name);
  }
  SENNIT_RETURN_IF_ERROR(check_arguments(entry.operation, comm.rank(), comm.size()));
  auto work = std::make_shared<Work>();
  work->operation = entry.operation;
  return work;
}

void deliver(const sennit_comm& comm, Work& send, Work& recv) {
  const Status& failure = comm.comm->failure();
  const Operation& op = send.operation;
  if (failure.ok() && op.count > 0) {
    // The two buffers may be one.
    std::memmove(
        recv.operation.recv, op.send, static_cast<std::size_t>(op.count) * size_bytes(op.dtype));
  }
  for (Work* const work : {&send, &recv}) {
    work->status = failure;
    work->ended = true;
  }
}

}  // namespace sennit
