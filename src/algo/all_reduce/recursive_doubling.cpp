#include "algo/all_reduce/all_reduce.hpp"
#include "algo/ranks.hpp"
#include "schedule/builder.hpp"

#include <algorithm>
#include <bit>

namespace sennit::algo::all_reduce {
namespace {

// The ranks that double: the largest power of two of them. Of the first 2 * extra ranks only the
// even ones do, each for itself and the odd rank after it.
struct Fold {
  explicit Fold(int ranks) : doubling(1 << floor_log2(ranks)), extra(ranks - doubling) {}

  // The rank that has number `v` among those that double.
  [[nodiscard]] int rank(int v) const { return v < extra ? 2 * v : v + extra; }

  int doubling;
  int extra;
};

// The lower number's sum is the first operand on both sides, so all ranks form one expression.
void exchange(Builder& b, LaneId low, LaneId high, const Block& low_held, const Block& high_held) {
  const int up = b.channel(low, high);
  const int down = b.channel(high, low);
  b.send(low, {low_held}, up);
  b.send(high, {high_held}, down);
  b.recv_reduce(low, down, {low_held}, {output_block(0)});
  b.step(high,
         {.kind = StepKind::kRecvReduce,
          .from = {high_held},
          .to = {output_block(0)},
          .in = {up},
          .order = {1, 0}});
}

Schedule build(const Shape& shape) {
  Builder b("recursive_doubling", {.collective = Collective::kAllReduce, .ranks = shape.ranks});
  const auto lanes = b.lane_on_every_rank(Need::kReduce);
  if (shape.ranks == 1) {
    b.copy(lanes[0], {input_block(0)}, {output_block(0)});
    return std::move(b).finish();
  }
  const Fold fold(shape.ranks);
  std::vector<Block> held(static_cast<std::size_t>(fold.doubling), input_block(0));
  for (int v = 0; v < fold.extra; ++v) {
    const LaneId even = at(lanes, 2 * v);
    const LaneId odd = at(lanes, 2 * v + 1);
    const int channel = b.channel(odd, even);
    b.send(odd, {input_block(0)}, channel);
    b.recv_reduce(even, channel, {input_block(0)}, {output_block(0)});
    held[static_cast<std::size_t>(v)] = output_block(0);
  }
  for (int distance = 1; distance < fold.doubling; distance *= 2) {
    for (int v = 0; v < fold.doubling; ++v) {
      if ((v & distance) == 0) {
        exchange(b,
                 at(lanes, fold.rank(v)),
                 at(lanes, fold.rank(v + distance)),
                 at(held, v),
                 at(held, v + distance));
      }
    }
    std::ranges::fill(held, output_block(0));
  }
  for (int v = 0; v < fold.extra; ++v) {
    const LaneId even = at(lanes, 2 * v);
    const LaneId odd = at(lanes, 2 * v + 1);
    const int channel = b.channel(even, odd);
    b.send(even, {output_block(0)}, channel);
    b.recv(odd, channel, {output_block(0)});
  }
  return std::move(b).finish();
}

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  const int folded =
      2 * (shape.ranks - static_cast<int>(std::bit_floor(static_cast<unsigned>(shape.ranks))));
  const auto number = [&](int rank) { return rank < folded ? rank / 2 : rank - folded / 2; };
  const auto idle = [&](int rank) { return rank < folded && rank % 2 == 1; };
  if (number(from) == number(to)) {
    return from == to ? 0 : 1;  // a folded pair: the vector there, the result back
  }
  const int differing = number(from) ^ number(to);
  return !idle(from) && !idle(to) && std::has_single_bit(static_cast<unsigned>(differing)) ? 1 : 0;
}

// A chain of one message in each doubling round ends at the rank whose number has all bits flipped.
// So it can be preceded and followed by a folding message only if two folded pairs have such
// numbers, which takes more than half of the doubling ranks to be folded; else it has one of the
// two.
std::int64_t rounds(const Shape& shape) {
  const int doubling = 1 << floor_log2(shape.ranks);
  const int folded = shape.ranks - doubling;
  return floor_log2(shape.ranks) + (folded == 0 ? 0 : 2 * folded > doubling ? 2 : 1);
}

}  // namespace

Algorithm recursive_doubling() {
  return {.collective = Collective::kAllReduce,
          .name = "recursive_doubling",
          .summary =
              "partners at distance 1, 2, 4, ... exchange whole vectors: few rounds, for small "
              "messages",
          .source = "Thakur, Rabenseifner and Gropp 2005",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true};
}

}  // namespace sennit::algo::all_reduce
