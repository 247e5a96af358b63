// A rail that has failed between two ranks that live: who has seen it, and what the others say of
// it.
#pragma once

#include "world/watch.hpp"
#include "world/world.hpp"

namespace sennit {

// Whether a rank says in its line that what it sends to another node gets nowhere.
bool has_lost_rail(const World& world, int rank);

// The verdict of another rank about that.
Verdict retell_lost_rail(const World& world, int rank);

}  // namespace sennit
