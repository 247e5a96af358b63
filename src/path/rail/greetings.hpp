// Greetings: what ranks of different nodes send each other before their first call, over every
// route that their calls will use. So connections are made while all ranks are there, and a card
// that does not reach another node is found when the communicator is made.
#pragma once

#include "base/status.hpp"
#include "path/rail/mirrored_rings.hpp"

#include <functional>
#include <span>

namespace sennit::rail {

struct GreetingOptions {
  std::span<const int> rails_to;  // by reader
  double timeout_s = 60.0;
  // Asked now and then: why this rank waits in vain.
  std::function<Status()> check{};
};

// Blocks until all ranks of other nodes have answered, and have all that they need of this rank to
// come to the same end. kJoinTimeout names the cards, and the ranks that have not answered in time.
Status exchange_greetings(MirroredRings& rings, const GreetingOptions& options);

}  // namespace sennit::rail
