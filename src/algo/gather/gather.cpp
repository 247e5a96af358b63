#include "algo/gather/gather.hpp"

#include <array>

namespace sennit::algo::gather {

std::span<const Algorithm> table() {
  static const std::array kRows = {binomial(), direct()};
  return kRows;
}

}  // namespace sennit::algo::gather
