#include "algo/broadcast/broadcast.hpp"
#include "algo/k_nomial_tree.hpp"
#include "algo/ranks.hpp"

#include <algorithm>

namespace sennit::algo::broadcast {
namespace {

// The vector is cut into a block for each rank; block v goes to the root's v-th successor down a
// binomial tree, in one message with those of its subtree. Then blocks go round a ring, but for
// what a rank has by the scatter: above all, nothing goes back to the root.
class Build {
 public:
  explicit Build(const Shape& shape)
      : tree_(shape.ranks, shape.root, /*radix=*/2),
        b_("scatter_ring",
           {.collective = Collective::kBroadcast,
            .ranks = shape.ranks,
            .root = shape.root,
            .cut = shape.ranks}) {
    copy_at_root(b_);
  }

  Schedule run() {
    const int n = b_.problem().ranks;
    if (n == 1) {
      return std::move(b_).finish();
    }
    for (int v = 0; v < n; ++v) {
      trees_.push_back(b_.lane(tree_.rank(v), Need::kMove));
      rings_.push_back(b_.lane(tree_.rank(v), Need::kMove));
    }
    scatter();
    for (int v = 0; v < n; ++v) {
      to_next_.push_back(v == n - 1 ? -1 : b_.channel(at(rings_, v), at(rings_, v + 1)));
    }
    for (int v = 0; v < n; ++v) {
      add_to_ring(v);
    }
    return std::move(b_).finish();
  }

 private:
  [[nodiscard]] static Block block(int v, int index) {
    return v == 0 ? input_block(index) : output_block(index);
  }

  [[nodiscard]] bool has_by_scatter(int v, int index) const {
    return v <= index && index < v + tree_.subtree(v);
  }

  void scatter() {
    arrivals_.resize(trees_.size());
    for (int v = 0; v < b_.problem().ranks; ++v) {
      auto children = tree_.children(v);
      std::ranges::reverse(children);  // the largest subtree first: it takes longest
      for (const int child : children) {
        Blocks from;
        Blocks to;
        for (int index = child; index < child + tree_.subtree(child); ++index) {
          from.push_back(block(v, index));
          to.push_back(block(child, index));
        }
        const int channel = b_.channel(at(trees_, v), at(trees_, child));
        b_.send(at(trees_, v), std::move(from), channel);
        arrivals_[static_cast<std::size_t>(child)] =
            b_.recv(at(trees_, child), channel, std::move(to));
      }
    }
  }

  // In round h block v - h leaves `v` for its successor.
  void add_to_ring(int v) {
    const int n = b_.problem().ranks;
    const LaneId lane = at(rings_, v);
    for (int round = 0; round < n; ++round) {
      const int index = wrap(v - round, n);
      const bool is_scattered = has_by_scatter(v, index);
      if (!is_scattered) {
        b_.recv(lane, at(to_next_, v - 1), {block(v, index)});
      }
      if (v < n - 1 && !has_by_scatter(v + 1, index)) {
        b_.send(lane, {block(v, index)}, at(to_next_, v));
        if (is_scattered && v > 0) {
          b_.after(lane, {at(arrivals_, v)});
        }
      }
    }
  }

  KNomialTree tree_;
  Builder b_;
  // By virtual number.
  std::vector<LaneId> trees_;
  std::vector<LaneId> rings_;
  std::vector<StepRef> arrivals_;
  std::vector<int> to_next_;
};

Schedule build(const Shape& shape) { return Build(shape).run(); }

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  const int v = wrap(to - shape.root, shape.ranks);
  if (v == 0) {
    return 0;
  }
  const int scattered = binomial_subtree(shape.ranks, v);
  return (is_k_nomial_edge(shape, /*radix=*/2, from, to) ? scattered : 0) +
         blocks_to_successor(shape.ranks - scattered, shape.ranks, from, to);
}

// Edges of both tree and ring lead to higher virtual numbers, and the ring takes all of them.
std::int64_t rounds(const Shape& shape) { return shape.ranks - 1; }

}  // namespace

Algorithm scatter_ring() {
  return {.collective = Collective::kBroadcast,
          .name = "scatter_ring",
          .summary =
              "the root scatters slices down a binomial tree, then they go round a ring: for large "
              "messages",
          .source = "Thakur, Rabenseifner and Gropp 2005 (van de Geijn)",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true};
}

}  // namespace sennit::algo::broadcast
