#include "algo/barrier/barrier.hpp"

#include <array>

namespace sennit::algo::barrier {

std::span<const Algorithm> table() {
  static const std::array rows = {dissemination(), tree()};
  return rows;
}

}  // namespace sennit::algo::barrier
