// The reduce algorithms: each function returns its row of the table.
#pragma once

#include "algo/algorithm.hpp"

namespace sennit::algo::reduce {

Algorithm k_nomial();
Algorithm direct();
Algorithm chain();
Algorithm scatter_gather();

// All rows; the first is the default.
std::span<const Algorithm> table();

}  // namespace sennit::algo::reduce
