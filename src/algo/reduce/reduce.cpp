#include "algo/reduce/reduce.hpp"

#include <array>

namespace sennit::algo::reduce {

std::span<const Algorithm> table() {
  static const std::array rows = {k_nomial(), direct()};
  return rows;
}

}  // namespace sennit::algo::reduce
