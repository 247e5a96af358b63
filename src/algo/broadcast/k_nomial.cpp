#include "algo/broadcast/broadcast.hpp"
#include "algo/broadcast/down_tree.hpp"

namespace sennit::algo::broadcast {
namespace {

Schedule build(const Shape& shape) {
  Builder b("k_nomial",
            {.collective = Collective::kBroadcast, .ranks = shape.ranks, .root = shape.root});
  copy_at_root(b);
  const auto held = [](int v) { return v == 0 ? input_block(0) : output_block(0); };
  send_down_tree(b, KNomialTree(shape.ranks, shape.root, shape.radix), held, std::nullopt);
  return std::move(b).finish();
}

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  return is_k_nomial_edge(shape, shape.radix, from, to) ? 1 : 0;
}

std::int64_t rounds(const Shape& shape) { return k_nomial_depth(shape.ranks, shape.radix); }

}  // namespace

Algorithm k_nomial() {
  return {.collective = Collective::kBroadcast,
          .name = "k_nomial",
          .summary = "down a tree in which the root has most children; radix 2 is binomial",
          .source = "Awan et al. 2018 (k-nomial tree)",
          .build = build,
          .refuses = refuses_radix,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true,
          .takes_radix = true};
}

}  // namespace sennit::algo::broadcast
