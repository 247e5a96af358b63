// The barrier algorithms: each function returns its row of the table.
#pragma once

#include "algo/algorithm.hpp"

namespace sennit::algo::barrier {

Algorithm dissemination();
Algorithm tree();

// All rows; the first is the default.
std::span<const Algorithm> table();

}  // namespace sennit::algo::barrier
