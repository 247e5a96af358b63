// The all_to_all algorithms: each function returns its row of the table.
#pragma once

#include "algo/algorithm.hpp"

namespace sennit::algo::all_to_all {

Algorithm direct();
Algorithm pairwise();
Algorithm bruck();
Algorithm multi_rail();

// All rows; the first is the default.
std::span<const Algorithm> table();

}  // namespace sennit::algo::all_to_all
