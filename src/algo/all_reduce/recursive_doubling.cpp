#include "algo/all_reduce/all_reduce.hpp"
#include "algo/power_of_two.hpp"
#include "algo/ranks.hpp"
#include "schedule/builder.hpp"

#include <algorithm>

namespace sennit::algo::all_reduce {
namespace {

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
  const PowerOfTwo active(shape.ranks);
  std::vector<Block> held(static_cast<std::size_t>(active.size()), input_block(0));
  for (int v = 0; v < active.extra(); ++v) {
    const LaneId even = at(lanes, active.rank(v));
    const LaneId odd = at(lanes, active.absent(v));
    const int channel = b.channel(odd, even);
    b.send(odd, {input_block(0)}, channel);
    b.recv_reduce(even, channel, {input_block(0)}, {output_block(0)});
    held[static_cast<std::size_t>(v)] = output_block(0);
  }
  for (int distance = 1; distance < active.size(); distance *= 2) {
    for (int v = 0; v < active.size(); ++v) {
      if ((v & distance) == 0) {
        exchange(b,
                 at(lanes, active.rank(v)),
                 at(lanes, active.rank(v + distance)),
                 at(held, v),
                 at(held, v + distance));
      }
    }
    std::ranges::fill(held, output_block(0));
  }
  for (int v = 0; v < active.extra(); ++v) {
    const LaneId even = at(lanes, active.rank(v));
    const LaneId odd = at(lanes, active.absent(v));
    const int channel = b.channel(even, odd);
    b.send(even, {output_block(0)}, channel);
    b.recv(odd, channel, {output_block(0)});
  }
  return std::move(b).finish();
}

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  return pair_link(shape.ranks, from, to).kind == PairLink::Kind::kNone ? 0 : 1;
}

std::int64_t rounds(const Shape& shape) { return rounds_of_pairs(shape.ranks); }

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
