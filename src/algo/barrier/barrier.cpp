#include "algo/barrier/barrier.hpp"

#include <array>

namespace sennit::algo::barrier {

std::span<const Algorithm> table() {
  static const std::array kRows = {dissemination(), tree()};
  return kRows;
}

}  // namespace sennit::algo::barrier
