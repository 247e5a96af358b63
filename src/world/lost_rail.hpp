// A rail that has failed between two ranks that live: who has seen it, and what the others say of
// it.
#pragma once

#include "world/watch.hpp"
#include "world/world.hpp"

#include <optional>

namespace sennit {

// Whether a rank says in its line that what it sends to another node gets nowhere.
bool has_lost_rail(const World& world, int rank);

// The first other rank that says so.
std::optional<int> find_witness_of_lost_rail(const World& world);

// The verdict of another rank about that.
Verdict retell_lost_rail(const World& world, int rank);

// The verdict where a call needs a rank that has lost a rail. One that has done its part of the
// call is needed while that part is waited for: it has left that rank, and was lost on its way.
std::optional<Verdict> find_lost_rail(const World& world, const CallView& view);

}  // namespace sennit
