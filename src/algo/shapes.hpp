// The shapes in which a row of the table is looked at: by `sennit verify` and by the tests.
#pragma once

#include "algo/algorithm.hpp"

#include <vector>

namespace sennit::algo {

// Every root of a rooted collective, several radixes of a row that takes one, and several divisions
// into groups of a row that takes them: equal and unequal ones, in and out of order.
std::vector<Shape> shapes_to_try(const Algorithm& algorithm, int ranks);

// The parts of a shape that are not left to the algorithm, for people: "root 2, groups {0 2} {1}".
std::string in_words(const Shape& shape);

}  // namespace sennit::algo
