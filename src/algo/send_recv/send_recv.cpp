#include "algo/send_recv/send_recv.hpp"

#include <array>

namespace sennit::algo::send_recv {

std::span<const Algorithm> table() {
  static const std::array rows = {direct()};
  return rows;
}

}  // namespace sennit::algo::send_recv
