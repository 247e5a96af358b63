#include "algo/broadcast/broadcast.hpp"

#include <array>

namespace sennit::algo::broadcast {

std::span<const Algorithm> table() {
  static const std::array kRows = {chain(), direct(), k_nomial()};
  return kRows;
}

void copy_at_root(Builder& b) {
  const LaneId lane = b.lane(b.problem().root, Need::kMove);
  b.copy(lane, {input_block(0)}, {output_block(0)});
}

}  // namespace sennit::algo::broadcast
