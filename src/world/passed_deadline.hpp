// What a rank can say of a call whose deadline has passed.
#pragma once

#include "world/watch.hpp"
#include "world/world.hpp"

namespace sennit {

// Names the ranks that have not made the call or are stopped; else, which rank each one waits for.
Verdict explain_deadline(const World& world, const CallView& view);

}  // namespace sennit
