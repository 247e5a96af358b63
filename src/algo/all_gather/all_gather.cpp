#include "algo/all_gather/all_gather.hpp"

#include <array>

namespace sennit::algo::all_gather {

std::span<const Algorithm> table() {
  static const std::array kRows = {
      ring(), direct(), recursive_doubling(), bruck(), multi_rail(), hub()};
  return kRows;
}

void copy_own_blocks(Builder& b) {
  for (const LaneId lane : b.lane_on_every_rank(Need::kMove)) {
    b.copy(lane, {input_block(0)}, {output_block(lane.rank)});
  }
}

}  // namespace sennit::algo::all_gather
