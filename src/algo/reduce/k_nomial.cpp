#include "algo/k_nomial_tree.hpp"
#include "algo/ranks.hpp"
#include "algo/reduce/reduce.hpp"
#include "schedule/builder.hpp"

namespace sennit::algo::reduce {
namespace {

Schedule build(const Shape& shape) {
  Builder b("k_nomial",
            {.collective = Collective::kReduce, .ranks = shape.ranks, .root = shape.root});
  const KNomialTree tree(shape.ranks, shape.root, shape.radix);
  const auto lanes = b.lane_on_every_rank(Need::kReduce);
  std::vector<int> to_parent(static_cast<std::size_t>(shape.ranks), -1);
  for (int v = 0; v < shape.ranks; ++v) {
    for (const int child : tree.children(v)) {
      to_parent[static_cast<std::size_t>(child)] =
          b.channel(at(lanes, tree.rank(child)), at(lanes, tree.rank(v)));
    }
  }
  for (int v = 0; v < shape.ranks; ++v) {
    // One n-ary step a node: its sum goes to the parent without being stored.
    Step step{.from = {input_block(0)}};
    for (const int child : tree.children(v)) {
      step.in.push_back(at(to_parent, child));
    }
    if (v == 0) {
      step.to = {output_block(0)};
    } else {
      step.out = {at(to_parent, v)};
    }
    const bool is_leaf = step.in.empty();
    step.kind = !is_leaf ? StepKind::kRecvReduce : v == 0 ? StepKind::kCopy : StepKind::kSend;
    b.step(at(lanes, tree.rank(v)), std::move(step));
  }
  return std::move(b).finish();
}

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  return is_k_nomial_edge(shape, shape.radix, to, from) ? 1 : 0;
}

std::int64_t rounds(const Shape& shape) { return k_nomial_depth(shape.ranks, shape.radix); }

}  // namespace

Algorithm k_nomial() {
  return {.collective = Collective::kReduce,
          .name = "k_nomial",
          .summary =
              "up a tree whose inner nodes sum their children and themselves; radix 2 is binomial",
          .source = "Thakur, Rabenseifner and Gropp 2005 (binomial tree)",
          .build = build,
          .refuses = refuses_radix,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true,
          .takes_radix = true};
}

}  // namespace sennit::algo::reduce
