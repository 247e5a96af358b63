#include "capi/own_messages.hpp"

#include <cstring>

namespace sennit {

bool is_own_message(const Group::Entry& entry) {
  const Operation& op = entry.operation;
  return entry.comm->device == nullptr && op.collective == Collective::kSendRecv &&
         op.peer == entry.comm->comm->rank();
}

Result<std::vector<OwnMessage>> pair_own_messages(const std::vector<Group::Entry>& entries) {
  std::vector<OwnEnd> ends;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (is_own_message(entries[i])) {
      ends.push_back({.operation = &entries[i].operation, .comm = entries[i].comm, .place = i});
    }
  }
  return pair_own_messages(ends);
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
