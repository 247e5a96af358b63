// The all_reduce algorithms: each function returns its row of the table.
#pragma once

#include "algo/algorithm.hpp"

namespace sennit::algo::all_reduce {

Algorithm ring();
Algorithm recursive_doubling();
Algorithm two_shot();
Algorithm one_shot();
Algorithm halving_doubling();
Algorithm hierarchical();
Algorithm hierarchical_sliced();
Algorithm hierarchical_shares();
Algorithm shared_buffer();
Algorithm leader();

// All rows; the first is the default.
std::span<const Algorithm> table();

// Closed form of the hierarchical rows that cross once.
std::int64_t hierarchical_rounds(const Shape& shape);

}  // namespace sennit::algo::all_reduce
