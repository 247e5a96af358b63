#include "algo/broadcast/broadcast.hpp"

#include <array>

namespace sennit::algo::broadcast {

std::span<const Algorithm> table() {
  static const std::array kRows = {chain(),
                                   direct(),
                                   k_nomial(),
                                   scatter_ring(),
                                   scatter_forward(),
                                   staged_k_nomial(),
                                   multi_rail(),
                                   hub()};
  return kRows;
}

void copy_at_root(Builder& b) {
  const LaneId lane = b.lane(b.problem().root, Need::kMove);
  const int cut = b.problem().cut;
  b.copy(lane, input_blocks(cut), output_blocks(cut));
}

}  // namespace sennit::algo::broadcast
