// What a rank can say of a call whose deadline has passed.
#pragma once

#include "world/watch.hpp"
#include "world/world.hpp"

namespace sennit {

// Who has not made the call, is stopped, or waits for whom.
Verdict explain_deadline(const World& world, const CallView& view);

}  // namespace sennit
