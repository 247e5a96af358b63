// The network cards of messages between nodes, where a call names them or has several for itself.
#pragma once

#include "select/select.hpp"

#include <cstdint>
#include <vector>

namespace sennit {

// The numbers of the cards that a request names, or none.
Result<std::vector<int>> cards_of(const CallRequest& request, const HostFacts& facts);

// Lets the messages of a large call share all cards that are their reader's alone, in tiles for
// each of them.
void spread(std::int64_t bytes, const CallRequest& request, const HostFacts& facts, Choice& choice);

}  // namespace sennit
