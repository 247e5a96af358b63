#include "algo/broadcast/broadcast.hpp"
#include "algo/broadcast/down_tree.hpp"
#include "algo/ranks.hpp"

namespace sennit::algo::broadcast {
namespace {

// Two instances: the next tile is staged while this one is sent.
constexpr int kScratchDepth = 2;

// The root copies the vector to host memory, and whoever passes it on sends it from there: a
// network card may be slow to read a device's memory. What an inner node is to have itself is
// copied in a lane of its own, which no peer waits for; a leaf receives in place.
Schedule build(const Shape& shape) {
  const int n = shape.ranks;
  Builder b("staged_k_nomial",
            {.collective = Collective::kBroadcast, .ranks = n, .root = shape.root});
  copy_at_root(b);
  if (n == 1) {
    return std::move(b).finish();
  }
  const KNomialTree tree(n, shape.root, shape.radix);
  const Block staged = scratch_block(b.scratch("staged", 1, kScratchDepth, Place::kHost), 0);
  const StepRef at_root = b.copy(b.lane(shape.root, Need::kMove), {input_block(0)}, {staged});
  const auto is_leaf = [&](int v) { return tree.children(v).empty(); };
  const auto held = [&](int v) { return is_leaf(v) ? output_block(0) : staged; };
  const Arrivals arrivals = send_down_tree(b, tree, held, at_root);
  for (int v = 1; v < n; ++v) {
    if (!is_leaf(v)) {
      const LaneId lane = b.lane(tree.rank(v), Need::kMove);
      b.copy(lane, {staged}, {output_block(0)});
      b.after(lane, {*at(arrivals, v)});
    }
  }
  return std::move(b).finish();
}

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  return is_k_nomial_edge(shape, shape.radix, from, to) ? 1 : 0;
}

std::int64_t rounds(const Shape& shape) { return k_nomial_depth(shape.ranks, shape.radix); }

}  // namespace

Algorithm staged_k_nomial() {
  return {.collective = Collective::kBroadcast,
          .name = "staged_k_nomial",
          .summary = "the k-nomial tree through host memory: staged at the root, sent from there",
          .source = "Awan et al. 2018 (host-staged k-nomial)",
          .build = build,
          .refuses = refuses_radix,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true,
          .takes_radix = true};
}

}  // namespace sennit::algo::broadcast
