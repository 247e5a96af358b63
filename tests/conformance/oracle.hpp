// What the cases of the conformance tests hold in their inputs, and what their outputs must be.
//
// Inputs are functions of case, rank and index, so every rank can tell what every other one has.
// Sums and products of floats are made in long double, those of integers in 128 bits; a result of
// floats may be as far off as the roundings of any order of the operations allow:
//   |result - exact| <= ((1 + u)^k - 1) * S + n * s
// with u the unit roundoff of the type, k the operations on the way of one contribution (n - 1
// additions, and one each for scaling, dividing and rounding; four times as many for products of
// complex numbers), S the sum (product) of the magnitudes, and s the smallest subnormal number.
#pragma once

#include "conformance_case.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace sennit::tests {

// Element `index` of the input of `rank`, into size_bytes(c.dtype) bytes.
void make_input(const Case& c, int rank, std::int64_t index, std::byte* out);

// The scalar of `rank` for premul_sum.
void make_scalar(const Case& c, int rank, std::byte* out);

// The reduced elements of a case: one for all ranks.
class Oracle {
 public:
  explicit Oracle(const Case& c);

  // What is wrong with the outputs of `rank`; empty when nothing is.
  [[nodiscard]] std::string defect(int rank, const std::byte* outputs) const;

 private:
  // Of integers and of data that moves: the bytes. Of floats: for each part (a complex number has
  // two) the number and how far off it may be.
  struct Part {
    long double number = 0;
    long double tolerance = 0;
  };

  template <typename T>
  void reduce();
  [[nodiscard]] std::string defect_of(std::int64_t index, const std::byte* got) const;

  const Case& case_;
  std::vector<std::byte> exact_;
  std::vector<Part> parts_;
};

}  // namespace sennit::tests
