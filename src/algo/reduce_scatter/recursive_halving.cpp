#include "algo/power_of_two.hpp"
#include "algo/ranks.hpp"
#include "algo/reduce_scatter/reduce_scatter.hpp"
#include "schedule/builder.hpp"

namespace sennit::algo::reduce_scatter {
namespace {

// Partial sums stand in scratch under the number of their block until a rank's own one is finished.
// One lane, so one instance of the scratch is enough.
class Build {
 public:
  explicit Build(int ranks)
      : active_(ranks),
        b_("recursive_halving", {.collective = Collective::kReduceScatter, .ranks = ranks}),
        lanes_(b_.lane_on_every_rank(Need::kReduce)) {}

  Schedule run() {
    const int n = b_.problem().ranks;
    if (n == 1) {
      b_.copy(lanes_[0], {input_block(0)}, {output_block(0)});
      return std::move(b_).finish();
    }
    if (n > 2) {
      partial_ = b_.scratch("partial", n, /*depth=*/1);
    }
    for (int v = 0; v < active_.extra(); ++v) {
      hand_over(v);
    }
    for (int distance = active_.size() / 2; distance > 0; distance /= 2) {
      for (int v = 0; v < active_.size(); ++v) {
        if ((v & distance) == 0) {
          exchange(v, v + distance, distance);
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

  // The blocks that belong to the `count` virtual numbers around `v`, aligned: as `holder` has them
  // before the exchange at that distance...
  [[nodiscard]] Blocks held(int holder, int v, int count) const {
    const bool raw = count == active_.size() / 2 && holder >= active_.extra();
    Blocks blocks;
    for (const int index : active_.ranks_of(v & -count, count)) {
      blocks.push_back(raw ? input_block(index) : scratch_block(partial_, index));
    }
    return blocks;
  }

  // ... and where it keeps its own half after it. At distance 1 its own block is finished.
  [[nodiscard]] Blocks kept(int v, int count) const {
    Blocks blocks;
    for (const int index : active_.ranks_of(v & -count, count)) {
      blocks.push_back(count == 1 && index == active_.rank(v) ? output_block(0)
                                                              : scratch_block(partial_, index));
    }
    return blocks;
  }

  void hand_over(int v) {
    const int n = b_.problem().ranks;
    Blocks all;
    for (int index = 0; index < n; ++index) {
      all.push_back(scratch_block(partial_, index));
    }
    const int channel = b_.channel(absent_lane(v), lane(v));
    b_.send(absent_lane(v), input_blocks(n), channel);
    b_.recv_reduce(lane(v), channel, input_blocks(n), std::move(all));
  }

  void hand_back(int v) {
    const int channel = b_.channel(lane(v), absent_lane(v));
    b_.send(lane(v), {scratch_block(partial_, active_.absent(v))}, channel);
    b_.recv(absent_lane(v), channel, {output_block(0)});
  }

  // Each sends what the other keeps, before it receives.
  void exchange(int low, int high, int distance) {
    const int up = b_.channel(lane(low), lane(high));
    const int down = b_.channel(lane(high), lane(low));
    b_.send(lane(low), held(low, high, distance), up);
    b_.send(lane(high), held(high, low, distance), down);
    b_.recv_reduce(lane(low), down, held(low, low, distance), kept(low, distance));
    b_.recv_reduce(lane(high), up, held(high, high, distance), kept(high, distance));
  }

  PowerOfTwo active_;
  Builder b_;
  std::vector<LaneId> lanes_;
  int partial_ = 0;
};

Schedule build(const Shape& shape) { return Build(shape.ranks).run(); }

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  const PairLink link = pair_link(shape.ranks, from, to);
  switch (link.kind) {
    case PairLink::Kind::kNone:
      return 0;
    case PairLink::Kind::kHandOver:
      return shape.ranks;
    case PairLink::Kind::kHandBack:
      return 1;
    case PairLink::Kind::kExchange:
      return ranks_around(shape.ranks, link.to, link.distance);
  }
  return 0;
}

std::int64_t rounds(const Shape& shape) { return rounds_of_pairs(shape.ranks); }

}  // namespace

Algorithm recursive_halving() {
  return {.collective = Collective::kReduceScatter,
          .name = "recursive_halving",
          .summary =
              "partners at distance n/2, n/4, ... 1 exchange the halves that the other one keeps: "
              "few rounds, and least bytes for a power of two",
          .source = "Thakur, Rabenseifner and Gropp 2005",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true};
}

}  // namespace sennit::algo::reduce_scatter
