#include "algo/barrier/barrier.hpp"
#include "algo/k_nomial_tree.hpp"
#include "algo/ranks.hpp"
#include "schedule/builder.hpp"

namespace sennit::algo::barrier {
namespace {

Schedule build(const Shape& shape) {
  Builder b("tree", {.collective = Collective::kBarrier, .ranks = shape.ranks});
  const KNomialTree tree(shape.ranks, /*root=*/0, shape.radix);
  const auto lanes = b.lane_on_every_rank(Need::kMove);
  std::vector<std::vector<int>> up(lanes.size());    // to the node, from its children
  std::vector<std::vector<int>> down(lanes.size());  // from the node, to its children
  for (int node = 0; node < shape.ranks; ++node) {
    for (const int child : tree.children(node)) {
      up[static_cast<std::size_t>(node)].push_back(b.channel(at(lanes, child), at(lanes, node)));
      down[static_cast<std::size_t>(node)].push_back(b.channel(at(lanes, node), at(lanes, child)));
    }
  }
  if (shape.ranks > 1) {
    b.token(lanes[0], up[0], down[0]);
  }
  for (int node = 0; node < shape.ranks; ++node) {
    const auto children = tree.children(node);
    for (std::size_t i = 0; i < children.size(); ++i) {
      const LaneId child = at(lanes, children[i]);
      b.token(child, at(up, child.rank), {at(up, node)[i]});
      b.token(child, {at(down, node)[i]}, at(down, child.rank));
    }
  }
  return std::move(b).finish();
}

// Tokens carry no blocks.
std::int64_t blocks_on_link(const Shape&, int, int) { return 0; }

std::int64_t rounds(const Shape& shape) { return 2 * k_nomial_depth(shape.ranks, shape.radix); }

}  // namespace

Algorithm tree() {
  return {.collective = Collective::kBarrier,
          .name = "tree",
          .summary = "tokens gather up a tree at rank 0, which releases all down the same tree",
          .source = "textbook: combining tree",
          .build = build,
          .refuses = refuses_radix,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true,
          .takes_radix = true};
}

}  // namespace sennit::algo::barrier
