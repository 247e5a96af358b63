#include "algo/all_reduce/all_reduce.hpp"
#include "algo/ranks.hpp"
#include "schedule/builder.hpp"

namespace sennit::algo::all_reduce {
namespace {

constexpr int kLeader = 0;

// The leader sums as inputs come, without memory of its own for them: so its channels may be bound
// to the inputs of the members, and it alone works.
Schedule build(const Shape& shape) {
  const int n = shape.ranks;
  Builder b("leader", {.collective = Collective::kAllReduce, .ranks = n});
  const LaneId sums = b.lane(kLeader, Need::kReduce);
  if (n == 1) {
    b.copy(sums, {input_block(0)}, {output_block(0)});
    return std::move(b).finish();
  }
  Step sum{.kind = StepKind::kRecvReduce,
           .from = {input_block(0)},
           .to = {output_block(0)},
           .order = rank_order(kLeader, n)};
  for (const int member : others(kLeader, n)) {
    const LaneId sender = b.lane(member, Need::kMove);
    const LaneId receiver = b.lane(member, Need::kMove);
    const int input = b.channel(sender, sums);
    const int result = b.channel(sums, receiver);
    b.send(sender, {input_block(0)}, input);
    b.recv(receiver, result, {output_block(0)});
    sum.in.push_back(input);
    sum.out.push_back(result);
  }
  b.step(sums, std::move(sum));
  return std::move(b).finish();
}

std::int64_t blocks_on_link(const Shape&, int from, int to) {
  return from != to && (from == kLeader || to == kLeader) ? 1 : 0;
}

std::int64_t rounds(const Shape& shape) { return shape.ranks == 1 ? 0 : 2; }

}  // namespace

Algorithm leader() {
  return {.collective = Collective::kAllReduce,
          .name = "leader",
          .summary =
              "rank 0 sums all vectors in rank order as they come and sends the sum to all: "
              "for ranks whose kernels a GPU runs in turn",
          .source = "Faraji and Afsahi 2015 (shared buffer), without the buffer",
          .build = build,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true};
}

}  // namespace sennit::algo::all_reduce
