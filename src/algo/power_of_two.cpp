#include "algo/power_of_two.hpp"

#include "algo/ranks.hpp"

#include <algorithm>
#include <bit>

namespace sennit::algo {
namespace {

// Of the first so many ranks the odd ones are absent.
int paired_ranks(int ranks) {
  return 2 * (ranks - static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks))));
}

}  // namespace

PowerOfTwo::PowerOfTwo(int ranks) : size_(1 << floor_log2(ranks)), extra_(ranks - size_) {}

std::vector<int> PowerOfTwo::ranks_of(int first, int count) const {
  std::vector<int> list;
  for (int v = first; v < first + count; ++v) {
    list.push_back(rank(v));
    if (v < extra_) {
      list.push_back(absent(v));
    }
  }
  return list;
}

PairLink pair_link(int ranks, int from, int to) {
  const int paired = paired_ranks(ranks);
  const auto number = [&](int rank) { return rank < paired ? rank / 2 : rank - paired / 2; };
  const auto is_absent = [&](int rank) { return rank < paired && rank % 2 == 1; };
  PairLink link{.to = number(to)};
  if (number(from) == number(to)) {
    link.kind = from == to        ? PairLink::Kind::kNone
                : is_absent(from) ? PairLink::Kind::kHandOver
                                  : PairLink::Kind::kHandBack;
    return link;
  }
  const int differing = number(from) ^ number(to);
  if (!is_absent(from) && !is_absent(to) && std::has_single_bit(static_cast<unsigned>(differing))) {
    link.kind = PairLink::Kind::kExchange;
    link.distance = differing;
  }
  return link;
}

std::int64_t ranks_around(int ranks, int v, int distance) {
  const int first = v & -distance;
  return distance + std::clamp(paired_ranks(ranks) / 2 - first, 0, distance);
}

// A chain with one message at each distance ends at the virtual number with all bits flipped. So it
// can be both preceded by a hand-over and followed by a hand-back only if two pairs of ranks have
// such numbers, which takes more than half of the virtual numbers to stand for two ranks; else it
// has one of the two.
std::int64_t rounds_of_pairs(int ranks) {
  const int extra = paired_ranks(ranks) / 2;
  const int size = ranks - extra;
  return floor_log2(ranks) + (extra == 0 ? 0 : 2 * extra > size ? 2 : 1);
}

}  // namespace sennit::algo
