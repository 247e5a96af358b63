// The reduce_scatter algorithms: each function returns its row of the table.
#pragma once

#include "algo/algorithm.hpp"

namespace sennit::algo::reduce_scatter {

Algorithm ring();
Algorithm direct();
Algorithm recursive_halving();

// All rows; the first is the default.
std::span<const Algorithm> table();

}  // namespace sennit::algo::reduce_scatter
