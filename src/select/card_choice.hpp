// The network cards of messages between nodes, where a call names them or has several for itself.
#pragma once

#include "select/select.hpp"

#include <cstdint>
#include <vector>

namespace sennit {

// The numbers of the cards that a request names, or none.
Result<std::vector<int>> cards_of(const CallRequest& request, const HostFacts& facts);

// Whether the messages of such a call share all cards that are their reader's alone.
bool may_spread(std::int64_t bytes, const HostFacts& facts);

}  // namespace sennit
