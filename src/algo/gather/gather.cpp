#include "algo/gather/gather.hpp"

#include <array>

namespace sennit::algo::gather {

std::span<const Algorithm> table() {
  static const std::array rows = {binomial(), direct()};
  return rows;
}

}  // namespace sennit::algo::gather
