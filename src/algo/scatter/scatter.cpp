#include "algo/scatter/scatter.hpp"

#include <array>

namespace sennit::algo::scatter {

std::span<const Algorithm> table() {
  static const std::array rows = {binomial(), direct()};
  return rows;
}

}  // namespace sennit::algo::scatter
