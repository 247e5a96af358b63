// Messages of a host rank to itself: a copy when their group ends.
#pragma once

#include "capi/groups.hpp"
#include "comm/own_messages.hpp"

#include <memory>
#include <vector>

namespace sennit {

bool is_own_message(const Group::Entry& entry);

// Those of the group, see comm/own_messages.hpp.
Result<std::vector<OwnMessage>> pair_own_messages(const std::vector<Group::Entry>& entries);

// The work of one end, which nothing but deliver() ends.
Result<std::shared_ptr<Work>> prepare_own_end(const Group::Entry& entry);

// Copies the message, unless the communicator has failed, and ends the works of both ends.
void deliver(const sennit_comm& comm, Work& send, Work& recv);

}  // namespace sennit
