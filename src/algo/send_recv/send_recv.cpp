#include "algo/send_recv/send_recv.hpp"

#include <array>

namespace sennit::algo::send_recv {

std::span<const Algorithm> table() {
  static const std::array kRows = {direct()};
  return kRows;
}

}  // namespace sennit::algo::send_recv
