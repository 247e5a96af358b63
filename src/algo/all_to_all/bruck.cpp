#include "algo/all_to_all/all_to_all.hpp"
#include "algo/ranks.hpp"
#include "schedule/builder.hpp"

#include <bit>

namespace sennit::algo::all_to_all {
namespace {

bool moves_in_round(int offset, int distance) { return (offset & distance) != 0; }

// A block for the j-th successor travels the bits of j, lowest first: in round d = 1, 2, 4, ... by
// d ranks if j has that bit. On its way it lies in scratch under its number j. Blocks are stored by
// name, so nothing has to be rotated. One lane, so one instance of the scratch is enough.
class Build {
 public:
  explicit Build(int ranks)
      : ranks_(ranks), b_("bruck", {.collective = Collective::kAllToAll, .ranks = ranks}) {
    if (ranks > 2) {
      transit_ = b_.scratch("transit", ranks, /*depth=*/1);
    }
  }

  Schedule run() {
    const auto lanes = b_.lane_on_every_rank(Need::kMove);
    for (int distance = 1; distance < ranks_; distance *= 2) {
      std::vector<int> channels;  // by sender
      for (const LaneId lane : lanes) {
        channels.push_back(b_.channel(lane, at(lanes, wrap(lane.rank + distance, ranks_))));
        b_.send(lane, leaving(lane.rank, distance), channels.back());
      }
      for (const LaneId lane : lanes) {
        b_.recv(
            lane, at(channels, wrap(lane.rank - distance, ranks_)), arriving(lane.rank, distance));
      }
    }
    for (const LaneId lane : lanes) {
      b_.copy(lane, {input_block(lane.rank)}, {output_block(lane.rank)});
    }
    return std::move(b_).finish();
  }

 private:
  // A block that has no lower bit has not moved yet.
  [[nodiscard]] Blocks leaving(int rank, int distance) const {
    Blocks blocks;
    for (int offset = 1; offset < ranks_; ++offset) {
      if (moves_in_round(offset, distance)) {
        blocks.push_back(offset % distance == 0 ? input_block(wrap(rank + offset, ranks_))
                                                : scratch_block(transit_, offset));
      }
    }
    return blocks;
  }

  // A block that has no higher bit has come home.
  [[nodiscard]] Blocks arriving(int rank, int distance) const {
    Blocks blocks;
    for (int offset = 1; offset < ranks_; ++offset) {
      if (moves_in_round(offset, distance)) {
        blocks.push_back(offset < 2 * distance ? output_block(wrap(rank - offset, ranks_))
                                               : scratch_block(transit_, offset));
      }
    }
    return blocks;
  }

  int ranks_;
  Builder b_;
  int transit_ = 0;
};

Schedule build(const Shape& shape) { return Build(shape.ranks).run(); }

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  const int distance = wrap(to - from, shape.ranks);
  if (!std::has_single_bit(static_cast<unsigned>(distance))) {
    return 0;
  }
  // Of the numbers below `ranks`, those with that bit: whole periods, and the rest of the last one.
  const int periods = shape.ranks / (2 * distance);
  const int rest = shape.ranks % (2 * distance);
  return periods * distance + (rest > distance ? rest - distance : 0);
}

std::int64_t rounds(const Shape& shape) { return ceil_log2(shape.ranks); }

}  // namespace

Algorithm bruck() {
  return {.collective = Collective::kAllToAll,
          .name = "bruck",
          .summary =
              "blocks hop by 1, 2, 4, ... ranks, many in one message: few messages, for small "
              "blocks",
          .source = "Bruck et al. 1997",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = false};
}

}  // namespace sennit::algo::all_to_all
