// The all_gather algorithms: each function returns its row of the table.
#pragma once

#include "algo/algorithm.hpp"
#include "schedule/builder.hpp"

namespace sennit::algo::all_gather {

Algorithm ring();
Algorithm direct();
Algorithm recursive_doubling();
Algorithm bruck();
Algorithm multi_rail();
Algorithm hub();

// All rows; the first is the default.
std::span<const Algorithm> table();

// Every rank's own output block: a copy in a lane of its own, which no peer waits for.
void copy_own_blocks(Builder& b);

}  // namespace sennit::algo::all_gather
