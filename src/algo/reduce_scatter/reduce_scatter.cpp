#include "algo/reduce_scatter/reduce_scatter.hpp"

#include <array>

namespace sennit::algo::reduce_scatter {

std::span<const Algorithm> table() {
  static const std::array kRows = {ring(), direct(), recursive_halving()};
  return kRows;
}

}  // namespace sennit::algo::reduce_scatter
