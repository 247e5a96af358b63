#include "algo/scatter/scatter.hpp"

#include <array>

namespace sennit::algo::scatter {

std::span<const Algorithm> table() {
  static const std::array kRows = {binomial(), direct()};
  return kRows;
}

}  // namespace sennit::algo::scatter
