// Messages of a host rank to itself: a send and a recv of one group, and a copy when it ends.
#pragma once

#include "capi/groups.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace sennit {

bool is_own_message(const Group::Entry& entry);

// The two ends of such a message, as places in the group.
struct OwnMessage {
  std::size_t send = 0;
  std::size_t recv = 0;
};

// The k-th send of a tag from a rank to itself goes to its k-th recv of the tag. Refuses an end
// without the other, and ends that differ in count or dtype.
Result<std::vector<OwnMessage>> pair_own_messages(const std::vector<Group::Entry>& entries);

// The work of one end, which nothing but deliver() ends.
Result<std::shared_ptr<Work>> prepare_own_end(const Group::Entry& entry);

// Copies the message, unless the communicator has failed, and ends the works of both ends.
void deliver(const sennit_comm& comm, Work& send, Work& recv);

}  // namespace sennit
