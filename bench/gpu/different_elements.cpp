#include "different_elements.hpp"

#include <cuda_runtime_api.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <vector>

namespace sennit_bench {
namespace {

std::vector<float> copied(const float* from, std::size_t count) {
  std::vector<float> elements(count);
  if (cudaMemcpy(elements.data(), from, count * sizeof(float), cudaMemcpyDefault) != cudaSuccess) {
    std::cerr << "compare: an output could not be copied\n";
    std::exit(3);
  }
  return elements;
}

}  // namespace

std::uint64_t count_different(const float* a, const float* b, std::size_t count, bool are_sums) {
  const std::vector<float> left = copied(a, count);
  const std::vector<float> right = copied(b, count);
  std::uint64_t different = 0;
  for (std::size_t i = 0; i < count; ++i) {
    // As bits: what nobody wrote is no number, and equal.
    const bool same =
        are_sums ? std::fabs(left[i] - right[i]) <= 1e-5F
                 : std::bit_cast<std::uint32_t>(left[i]) == std::bit_cast<std::uint32_t>(right[i]);
    different += same ? 0 : 1;
  }
  return different;
}

double relative_error(const float* a, const float* b, std::size_t count) {
  const std::vector<float> left = copied(a, count);
  const std::vector<float> right = copied(b, count);
  double errors = 0;
  double values = 0;
  for (std::size_t i = 0; i < count; ++i) {
    errors += std::pow(static_cast<double>(left[i]) - right[i], 2);
    values += std::pow(static_cast<double>(right[i]), 2);
  }
  return std::sqrt(errors / values);
}

}  // namespace sennit_bench
