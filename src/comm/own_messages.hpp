// Messages of a rank to itself: a send and a recv of one group.
#pragma once

#include "base/status.hpp"
#include "world/operation.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace sennit {

// One end of such a message: a send or a recv whose peer is the rank itself.
struct OwnEnd {
  const Operation* operation = nullptr;
  const void* comm = nullptr;  // ends of one communicator meet
  std::size_t place = 0;       // in the group
};

// Its two ends, as places in the group.
struct OwnMessage {
  std::size_t send = 0;
  std::size_t recv = 0;
};

// The k-th send of a tag goes to the k-th recv of the tag. Refuses an end without the other, and
// ends that differ in count or dtype.
Result<std::vector<OwnMessage>> pair_own_messages(std::span<const OwnEnd> ends);

}  // namespace sennit
