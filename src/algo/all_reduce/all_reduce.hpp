// The all_reduce algorithms: each function returns its row of the table.
#pragma once

#include "algo/algorithm.hpp"

namespace sennit::algo::all_reduce {

Algorithm ring();
Algorithm recursive_doubling();
Algorithm two_shot();
Algorithm one_shot();

// All rows; the first is the default.
std::span<const Algorithm> table();

}  // namespace sennit::algo::all_reduce
