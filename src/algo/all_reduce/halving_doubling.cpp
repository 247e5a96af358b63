#include "algo/all_reduce/all_reduce.hpp"
#include "algo/power_of_two.hpp"
#include "algo/ranks.hpp"
#include "schedule/builder.hpp"

namespace sennit::algo::all_reduce {
namespace {

// The vector is cut into as many blocks as there are virtual numbers. Halving leaves number v with
// the sum of block v, doubling takes the same partners in reverse. Sums stand in output from the
// first one on.
class Build {
 public:
  explicit Build(const Shape& shape)
      : active_(shape.ranks),
        b_("halving_doubling",
           {.collective = Collective::kAllReduce, .ranks = shape.ranks, .cut = active_.size()}),
        lanes_(b_.lane_on_every_rank(Need::kReduce)) {}

  Schedule run() {
    if (b_.problem().ranks == 1) {
      b_.copy(lanes_[0], input_blocks(1), output_blocks(1));
      return std::move(b_).finish();
    }
    for (int v = 0; v < active_.extra(); ++v) {
      hand_over(v);
    }
    for (int distance = active_.size() / 2; distance > 0; distance /= 2) {
      for (int v = 0; v < active_.size(); ++v) {
        if ((v & distance) == 0) {
          halve(v, v + distance, distance);
        }
      }
    }
    for (int distance = 1; distance < active_.size(); distance *= 2) {
      for (int v = 0; v < active_.size(); ++v) {
        if ((v & distance) == 0) {
          double_up(v, v + distance, distance);
        }
      }
    }
    for (int v = 0; v < active_.extra(); ++v) {
      hand_back(v);
    }
    return std::move(b_).finish();
  }

 private:
  [[nodiscard]] LaneId lane(int v) const { return at(lanes_, active_.rank(v)); }
  [[nodiscard]] LaneId absent_lane(int v) const { return at(lanes_, active_.absent(v)); }

  // The `count` blocks around block v, aligned, as the lane of `holder` has them before its first
  // exchange (`first`) or after it.
  [[nodiscard]] Blocks blocks_around(int v, int count, bool first, int holder) const {
    const bool raw = first && holder >= active_.extra();
    Blocks blocks;
    for (int i = v & -count; i < (v & -count) + count; ++i) {
      blocks.push_back(raw ? input_block(i) : output_block(i));
    }
    return blocks;
  }

  void hand_over(int v) {
    const int channel = b_.channel(absent_lane(v), lane(v));
    b_.send(absent_lane(v), input_blocks(active_.size()), channel);
    b_.recv_reduce(lane(v), channel, input_blocks(active_.size()), output_blocks(active_.size()));
  }

  void hand_back(int v) {
    const int channel = b_.channel(lane(v), absent_lane(v));
    b_.send(lane(v), output_blocks(active_.size()), channel);
    b_.recv(absent_lane(v), channel, output_blocks(active_.size()));
  }

  // Each sends what the other keeps.
  void halve(int low, int high, int distance) {
    const bool first = distance == active_.size() / 2;
    const int up = b_.channel(lane(low), lane(high));
    const int down = b_.channel(lane(high), lane(low));
    b_.send(lane(low), blocks_around(high, distance, first, low), up);
    b_.send(lane(high), blocks_around(low, distance, first, high), down);
    b_.recv_reduce(lane(low),
                   down,
                   blocks_around(low, distance, first, low),
                   blocks_around(low, distance, false, low));
    b_.recv_reduce(lane(high),
                   up,
                   blocks_around(high, distance, first, high),
                   blocks_around(high, distance, false, high));
  }

  void double_up(int low, int high, int distance) {
    const int up = b_.channel(lane(low), lane(high));
    const int down = b_.channel(lane(high), lane(low));
    b_.send(lane(low), blocks_around(low, distance, false, low), up);
    b_.send(lane(high), blocks_around(high, distance, false, high), down);
    b_.recv(lane(low), down, blocks_around(high, distance, false, low));
    b_.recv(lane(high), up, blocks_around(low, distance, false, high));
  }

  PowerOfTwo active_;
  Builder b_;
  std::vector<LaneId> lanes_;
};

Schedule build(const Shape& shape) { return Build(shape).run(); }

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  const PairLink link = pair_link(shape.ranks, from, to);
  switch (link.kind) {
    case PairLink::Kind::kNone:
      return 0;
    case PairLink::Kind::kHandOver:
    case PairLink::Kind::kHandBack:
      return 1 << floor_log2(shape.ranks);
    case PairLink::Kind::kExchange:
      return std::int64_t{2} * link.distance;
  }
  return 0;
}

// A chain that crosses each distance twice ends where it began, so the same pair of ranks can stand
// before and after it.
std::int64_t rounds(const Shape& shape) {
  const int log = floor_log2(shape.ranks);
  return 2 * log + ((1 << log) < shape.ranks ? 2 : 0);
}

}  // namespace

Algorithm halving_doubling() {
  return {.collective = Collective::kAllReduce,
          .name = "halving_doubling",
          .summary =
              "reduce-scatter by recursive halving, all-gather by recursive doubling: few rounds, "
              "and least bytes for a power of two",
          .source = "Rabenseifner 2004",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true};
}

}  // namespace sennit::algo::all_reduce
