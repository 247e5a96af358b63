#include "sim/rounds.hpp"

namespace sennit::sim {

int Rounds::add(int first_lane, std::int64_t tiles) {
  blocks_.push_back({.first_lane = first_lane, .tiles = tiles});
  return static_cast<int>(blocks_.size()) - 1;
}

void Rounds::restart(int block) {
  of(block).number = 0;
  of(block).left = 0;
  of(block).last_left = 0;
}

void Rounds::enter(int block, bool goes_last) {
  ++of(block).left;
  of(block).last_left += goes_last ? 1 : 0;
}

void Rounds::leave(int block, bool goes_last) {
  --of(block).left;
  of(block).last_left -= goes_last ? 1 : 0;
}

bool Rounds::may_run(int block, std::int64_t tile, bool goes_last) const {
  return !has_rounds(block) || (!is_past(block, tile) && (!goes_last || is_for_last(block)));
}

bool Rounds::is_past(int block, std::int64_t tile) const {
  return tile / of(block).tiles > of(block).number;
}

}  // namespace sennit::sim
