#include "algo/reduce/reduce.hpp"

#include <array>

namespace sennit::algo::reduce {

std::span<const Algorithm> table() {
  static const std::array kRows = {k_nomial(), direct(), chain(), scatter_gather()};
  return kRows;
}

}  // namespace sennit::algo::reduce
