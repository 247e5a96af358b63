#include "algo/ranks.hpp"
#include "algo/reduce/reduce.hpp"
#include "algo/wiring.hpp"

namespace sennit::algo::reduce {
namespace {

Schedule build(const Shape& shape) {
  const int n = shape.ranks;
  Builder b("direct", {.collective = Collective::kReduce, .ranks = n, .root = shape.root});
  const LaneId sum = b.lane(shape.root, Need::kReduce);
  PairChannels channels(static_cast<std::size_t>(n),
                        std::vector<int>(static_cast<std::size_t>(n), -1));
  for (const int peer : others(shape.root, n)) {
    const LaneId lane = b.lane(peer, Need::kMove);
    const int channel = b.channel(lane, sum);
    channels[static_cast<std::size_t>(peer)][static_cast<std::size_t>(shape.root)] = channel;
    b.send(lane, {input_block(0)}, channel);
  }
  b.step(sum, reduce_in_order(channels, shape.root, {input_block(0)}, {output_block(0)}));
  return std::move(b).finish();
}

std::int64_t blocks_on_link(const Shape& shape, int from, int to) {
  return to == shape.root && from != shape.root ? 1 : 0;
}

std::int64_t rounds(const Shape& shape) { return shape.ranks == 1 ? 0 : 1; }

}  // namespace

Algorithm direct() {
  return {.collective = Collective::kReduce,
          .name = "direct",
          .summary = "all send their vectors to the root, which sums in rank order",
          .source = "textbook: flat tree",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true};
}

}  // namespace sennit::algo::reduce
