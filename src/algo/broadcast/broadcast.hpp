// The broadcast algorithms: each function returns its row of the table.
#pragma once

#include "algo/algorithm.hpp"
#include "schedule/builder.hpp"

namespace sennit::algo::broadcast {

Algorithm chain();
Algorithm direct();
Algorithm hub();
Algorithm k_nomial();
Algorithm multi_rail();
Algorithm scatter_ring();
Algorithm scatter_forward();
Algorithm staged_k_nomial();

// All rows; the first is the default.
std::span<const Algorithm> table();

// The root's own output: a copy in a lane of its own, which no peer waits for. In place it is a
// copy of a cell onto itself, which is nothing.
void copy_at_root(Builder& b);

}  // namespace sennit::algo::broadcast
