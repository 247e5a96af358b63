#include "algo/fold.hpp"

#include "algo/ranks.hpp"

#include <algorithm>
#include <bit>

namespace sennit::algo {
namespace {

// Of the first so many ranks the odd ones are absent.
int folded_ranks(int ranks) {
  return 2 * (ranks - static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks))));
}

}  // namespace

Fold::Fold(int ranks) : size_(1 << floor_log2(ranks)), extra_(ranks - size_) {}

std::vector<int> Fold::ranks_of(int first, int count) const {
  std::vector<int> list;
  for (int v = first; v < first + count; ++v) {
    list.push_back(rank(v));
    if (v < extra_) {
      list.push_back(absent(v));
    }
  }
  return list;
}

FoldedLink folded_link(int ranks, int from, int to) {
  const int folded = folded_ranks(ranks);
  const auto number = [&](int rank) { return rank < folded ? rank / 2 : rank - folded / 2; };
  const auto is_absent = [&](int rank) { return rank < folded && rank % 2 == 1; };
  FoldedLink link{.to = number(to)};
  if (number(from) == number(to)) {
    link.kind = from == to        ? FoldedLink::Kind::kNone
                : is_absent(from) ? FoldedLink::Kind::kHandOver
                                  : FoldedLink::Kind::kHandBack;
    return link;
  }
  const int differing = number(from) ^ number(to);
  if (!is_absent(from) && !is_absent(to) && std::has_single_bit(static_cast<unsigned>(differing))) {
    link.kind = FoldedLink::Kind::kExchange;
    link.distance = differing;
  }
  return link;
}

std::int64_t folded_ranks_around(int ranks, int v, int distance) {
  const int first = v & -distance;
  return distance + std::clamp(folded_ranks(ranks) / 2 - first, 0, distance);
}

// A chain with one message at each distance ends at the virtual number with all bits flipped. So it
// can be both preceded by a hand-over and followed by a hand-back only if two folded pairs have
// such numbers, which takes more than half of the virtual numbers to be folded; else it has one of
// the two.
std::int64_t folded_rounds(int ranks) {
  const int extra = folded_ranks(ranks) / 2;
  const int size = ranks - extra;
  return floor_log2(ranks) + (extra == 0 ? 0 : 2 * extra > size ? 2 : 1);
}

}  // namespace sennit::algo
