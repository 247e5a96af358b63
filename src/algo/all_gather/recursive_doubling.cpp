#include "algo/all_gather/all_gather.hpp"
#include "algo/power_of_two.hpp"
#include "algo/ranks.hpp"

namespace sennit::algo::all_gather {
namespace {

// Where `holder` has the blocks of `sources`. Its own one is sent from input, so that nothing waits
// for the copy of it.
Blocks blocks_of(int holder, const std::vector<int>& sources) {
  Blocks blocks;
  for (const int source : sources) {
    blocks.push_back(source == holder ? input_block(0) : output_block(source));
  }
  return blocks;
}

class Build {
 public:
  explicit Build(int ranks)
      : active_(ranks),
        b_("recursive_doubling", {.collective = Collective::kAllGather, .ranks = ranks}) {
    copy_own_blocks(b_);
  }

  Schedule run() {
    const int n = b_.problem().ranks;
    if (n == 1) {
      return std::move(b_).finish();
    }
    lanes_ = b_.lane_on_every_rank(Need::kMove);
    for (int v = 0; v < active_.extra(); ++v) {
      move(active_.absent(v), active_.rank(v), {active_.absent(v)});
    }
    // At distance d a rank holds the blocks of the d virtual numbers around its own.
    for (int distance = 1; distance < active_.size(); distance *= 2) {
      for (int v = 0; v < active_.size(); ++v) {
        if ((v & distance) == 0) {
          exchange(v, v + distance, distance);
        }
      }
    }
    for (int v = 0; v < active_.extra(); ++v) {
      move(active_.rank(v), active_.absent(v), others(active_.absent(v), n));
    }
    return std::move(b_).finish();
  }

 private:
  void move(int from, int to, const std::vector<int>& sources) {
    const int channel = send(from, to, sources);
    b_.recv(at(lanes_, to), channel, blocks_of(to, sources));
  }

  // Both send before either receives.
  void exchange(int low, int high, int distance) {
    const auto below = active_.ranks_of(low & -distance, distance);
    const auto above = active_.ranks_of(high & -distance, distance);
    const int up = send(active_.rank(low), active_.rank(high), below);
    const int down = send(active_.rank(high), active_.rank(low), above);
    b_.recv(at(lanes_, active_.rank(low)), down, blocks_of(active_.rank(low), above));
    b_.recv(at(lanes_, active_.rank(high)), up, blocks_of(active_.rank(high), below));
  }

  int send(int from, int to, const std::vector<int>& sources) {
    const int channel = b_.channel(at(lanes_, from), at(lanes_, to));
    b_.send(at(lanes_, from), blocks_of(from, sources), channel);
    return channel;
  }

  PowerOfTwo active_;
  Builder b_;
  std::vector<LaneId> lanes_;
};

Schedule build(const Shape& shape) { return Build(shape.ranks).run(); }

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  const PairLink link = pair_link(shape.ranks, from, to);
  switch (link.kind) {
    case PairLink::Kind::kNone:
      return 0;
    case PairLink::Kind::kHandOver:
      return 1;
    case PairLink::Kind::kHandBack:
      return shape.ranks - 1;
    case PairLink::Kind::kExchange:
      return ranks_around(shape.ranks, link.to ^ link.distance, link.distance);
  }
  return 0;
}

std::int64_t rounds(const Shape& shape) { return rounds_of_pairs(shape.ranks); }

}  // namespace

Algorithm recursive_doubling() {
  return {.collective = Collective::kAllGather,
          .name = "recursive_doubling",
          .summary =
              "partners at distance 1, 2, 4, ... exchange all they have: few rounds, for small "
              "blocks",
          .source = "Thakur, Rabenseifner and Gropp 2005",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true};
}

}  // namespace sennit::algo::all_gather
