#include "algo/all_reduce/all_reduce.hpp"
#include "algo/ranks.hpp"
#include "schedule/builder.hpp"

namespace sennit::algo::all_reduce {
namespace {

constexpr int kLeader = 0;

// Two instances, so that the next tile arrives while this one is summed.
constexpr int kScratchDepth = 2;

// The leader takes every vector into its scratch, each in a lane of its own, so that they come in
// as their owners arrive and by whatever path their channel is bound to; only then does it sum.
Schedule build_shared_buffer(const Shape& shape) {
  const int n = shape.ranks;
  Builder b("shared_buffer", {.collective = Collective::kAllReduce, .ranks = n});
  const LaneId sum = b.lane(kLeader, Need::kReduce);
  if (n == 1) {
    b.copy(sum, {input_block(0)}, {output_block(0)});
    return std::move(b).finish();
  }
  Step total{.kind = StepKind::kReduce, .from = {input_block(0)}, .to = {output_block(0)}};
  for (const int member : others(kLeader, n)) {
    const LaneId sender = b.lane(member, Need::kMove);
    const LaneId receiver = b.lane(kLeader, Need::kMove);
    const int channel = b.channel(sender, receiver);
    // A scratch for each, because a block of scratch is as long as the block of its number.
    const int scratch = b.scratch(fmt::format("of_{}", member), 1, kScratchDepth);
    b.send(sender, {input_block(0)}, channel);
    total.from.push_back(scratch_block(scratch, 0));
    total.after.push_back(b.recv(receiver, channel, {scratch_block(scratch, 0)}));
  }
  const StepRef summed = b.step(sum, std::move(total));
  for (const int member : others(kLeader, n)) {
    const LaneId sender = b.lane(kLeader, Need::kMove);
    const LaneId receiver = b.lane(member, Need::kMove);
    const int channel = b.channel(sender, receiver);
    b.send(sender, {output_block(0)}, channel);
    b.after(sender, {summed});
    b.recv(receiver, channel, {output_block(0)});
  }
  return std::move(b).finish();
}

// The same without scratch: the leader sums what lies in the inputs of the members, so nothing but
// its own lane works.
Schedule build_leader(const Shape& shape) {
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

Algorithm shared_buffer() {
  return {.collective = Collective::kAllReduce,
          .name = "shared_buffer",
          .summary =
              "rank 0 gathers all vectors in its memory, sums them in rank order and sends the sum "
              "back: for ranks that share a device",
          .source = "Faraji and Afsahi 2015 (shared buffer)",
          .build = build_shared_buffer,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true};
}

Algorithm leader() {
  return {.collective = Collective::kAllReduce,
          .name = "leader",
          .summary =
              "rank 0 sums all vectors in rank order as they come and sends the sum to all: "
              "for ranks whose kernels a GPU runs in turn",
          .source = "Faraji and Afsahi 2015 (shared buffer), without the buffer",
          .build = build_leader,
          .refuses = refuses_nothing,
          .blocks_on_link = blocks_on_link,
          .rounds = rounds,
          .in_place = true};
}

}  // namespace sennit::algo::all_reduce
