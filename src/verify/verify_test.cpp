#include "verify/verify.hpp"

#include "schedule/passes.hpp"
#include "verify/checks.hpp"
#include "verify/testing/expectations.hpp"
#include "verify/testing/sample_schedules.hpp"

#include <gtest/gtest.h>

namespace sennit {
namespace {

using namespace verify_test;

// --- Right schedules ----------------------------------------------------------------------------

TEST(Verify, ProvesTheTextbook) {
  for (const int ranks : {2, 3, 5}) {
    expect_proved(plan_of(ring(ranks)));
    expect_proved(plan_of(fuse(ring(ranks))));
    expect_proved(plan_of(chain(ranks)));
    expect_proved(plan_of(exchange(ranks, First::kSend, /*by_round=*/true)));
    expect_proved(plan_of(two_shot(ranks, /*three_lanes=*/true)));
    expect_proved(plan_of(hub_all_gather(ranks)));
  }
}

TEST(Verify, TellsInPlaceFromOutOfPlace) {
  EXPECT_TRUE(verify(plan_of(fuse(ring(4))))->in_place);
  // A result comes back only after the input that it overwrites has left.
  EXPECT_TRUE(verify(plan_of(two_shot(3, /*three_lanes=*/true)))->in_place);

  const Result<Proof> exchanged = verify(plan_of(exchange(3, First::kSend, /*by_round=*/true)));
  EXPECT_FALSE(exchanged->in_place);
  EXPECT_EQ(exchanged->why_not_in_place,
            "values: output[1] of rank 0 holds block 1 instead of block 0");

  const Result<Proof> racing =
      verify(named_plan(Collective::kAllToAll, "direct", 3, Protocol::kSlots));
  EXPECT_FALSE(racing->in_place);
  EXPECT_TRUE(racing->why_not_in_place.starts_with("race: ")) << racing->why_not_in_place;
}

// Rank 1 sends its input once more after the sum has been written: in place that is the sum.
TEST(Verify, CallsNothingInPlaceThatTellsOtherRanksSomethingElse) {
  Builder b("chatty", {.collective = Collective::kReduce, .ranks = 2, .root = 1});
  const int unused = b.scratch("unused", 1, 1);
  const auto lanes = b.lane_on_every_rank(Need::kReduce);
  const int forth = b.channel(lanes[0], lanes[1]);
  const int back = b.channel(lanes[1], lanes[0]);
  b.send(lanes[0], {input_block(0)}, forth);
  b.recv_reduce(lanes[1], forth, {input_block(0)}, {output_block(0)});
  b.send(lanes[1], {input_block(0)}, back);
  b.recv(lanes[0], back, {scratch_block(unused, 0)});
  const Result<Proof> proof = verify(plan_of(std::move(b).finish()));
  ASSERT_TRUE(proof.ok());
  EXPECT_FALSE(proof->in_place);
  EXPECT_EQ(proof->why_not_in_place, "values: some messages are not what they are out of place");
}

// A one-shot all-reduce; each rank reduces from itself on, or all in the order of ranks.
Schedule one_shot(int ranks, bool in_rank_order, int cut = 1) {
  Builder b("one_shot", {.collective = Collective::kAllReduce, .ranks = ranks, .cut = cut});
  const auto sends = b.lane_on_every_rank(Need::kMove);
  const auto sums = b.lane_on_every_rank(Need::kReduce);
  for (const LaneId sum : sums) {
    Step step{.kind = StepKind::kRecvReduce, .from = input_blocks(cut), .to = output_blocks(cut)};
    for (const LaneId send : sends) {
      if (send.rank != sum.rank) {
        step.in.push_back(b.channel(send, sum));
        b.send(send, input_blocks(cut), step.in.back());
      }
      if (in_rank_order) {
        // Operand 0 is the own block, the messages follow.
        step.order.push_back(send.rank == sum.rank ? 0
                                                   : send.rank + (send.rank < sum.rank ? 1 : 0));
      }
    }
    b.step(sum, std::move(step));
  }
  return std::move(b).finish();
}

TEST(Verify, CallsOnlyOneReductionInRankOrderReproducible) {
  EXPECT_TRUE(verify(plan_of(one_shot(5, /*in_rank_order=*/true)))->reproducible);
  EXPECT_TRUE(verify(plan_of(ring(2)))->reproducible);
  EXPECT_FALSE(verify(plan_of(ring(3)))->reproducible);
  EXPECT_TRUE(verify(plan_of(chain(3)))->reproducible) << "what is not reduced has one tree";
}

TEST(Verify, ProvesEachStrandOfAPlan) {
  Plan plan = plan_of(one_shot(3, /*in_rank_order=*/true, /*cut=*/3));
  EXPECT_TRUE(verify(plan)->reproducible);
  plan.strands.push_back(plan_of(ring(3)).strands.front());
  const Result<Proof> proof = verify(plan);
  ASSERT_TRUE(proof.ok());
  EXPECT_FALSE(proof->reproducible) << "the second strand is not";
  EXPECT_EQ(proof->structure_hash, structure_hash(plan));

  plan.strands.push_back(plan_of(one_shot(3, /*in_rank_order=*/false, 3)).strands.front());
  expect_refused(plan, "strand 2: values: output[0] of rank 2 has another expression tree");
}

// --- Wrong schedules, each with the check that sees it ------------------------------------------

TEST(Verify, CatchesADeadlock) {
  expect_caught_only_by(
      &Checks::live, plan_of(exchange(3, First::kRecv, /*by_round=*/true)), "not live: ");
  expect_caught_only_by(
      &Checks::live, plan_of(fuse(ring(3)), Protocol::kSlots, /*slots=*/1), "free slot of channel");
}

TEST(Verify, CatchesDifferentTreesOnTheRanks) {
  expect_caught_only_by(&Checks::equal_trees,
                        plan_of(one_shot(3, /*in_rank_order=*/false)),
                        "values: output[0] of rank 2 has another expression tree than on rank 0");
}

// A reduction to rank 0 of three; rank 0 adds what `senders` send to it.
Schedule reduce_from(const std::vector<int>& senders) {
  Builder b("reduce", {.collective = Collective::kReduce, .ranks = 3});
  const auto lanes = b.lane_on_every_rank(Need::kReduce);
  Step sum{.kind = StepKind::kRecvReduce, .from = {input_block(0)}, .to = {output_block(0)}};
  for (const int sender : senders) {
    const LaneId lane = lanes[static_cast<std::size_t>(sender)];
    sum.in.push_back(b.channel(lane, lanes[0]));
    b.send(lane, {input_block(0)}, sum.in.back());
  }
  b.step(lanes[0], std::move(sum));
  return std::move(b).finish();
}

TEST(Verify, CatchesMissingAndDoubleContributions) {
  expect_proved(plan_of(reduce_from({1, 2})));
  expect_caught_only_by(&Checks::contributions,
                        plan_of(reduce_from({1})),
                        "values: output[0] of rank 0 lacks the contribution of rank 2");
  expect_caught_only_by(&Checks::contributions,
                        plan_of(reduce_from({1, 2, 2})),
                        "values: rank 0 lane 0 step 0 (recv_reduce) adds the contribution of rank "
                        "2 to block 0 twice");
}

// A scatter that sends block `sent` of the root to rank 1.
Schedule scatter_of_two(Blocks sent) {
  Builder b("scatter", {.collective = Collective::kScatter, .ranks = 2});
  const auto lanes = b.lane_on_every_rank(Need::kMove);
  const int channel = b.channel(lanes[0], lanes[1]);
  b.copy(lanes[0], {input_block(0)}, {output_block(0)});
  b.send(lanes[0], std::move(sent), channel);
  b.recv(lanes[1], channel, {output_block(0)});
  return std::move(b).finish();
}

TEST(Verify, CatchesTheWrongBlock) {
  expect_proved(plan_of(scatter_of_two({input_block(1)})));
  expect_caught_only_by(&Checks::contributions,
                        plan_of(scatter_of_two({input_block(0)})),
                        "values: output[0] of rank 1 holds block 0 instead of block 1");
}

TEST(Verify, CatchesTheWrongRoot) {
  // Rank 1 keeps its own block for that of the root.
  Builder b("wrong_root", {.collective = Collective::kGather, .ranks = 2, .root = 1});
  const auto lanes = b.lane_on_every_rank(Need::kMove);
  const int channel = b.channel(lanes[0], lanes[1]);
  b.send(lanes[0], {input_block(0)}, channel);
  b.recv(lanes[1], channel, {output_block(1)});
  b.copy(lanes[1], {input_block(0)}, {output_block(0)});
  expect_caught_only_by(&Checks::contributions,
                        plan_of(std::move(b).finish()),
                        "values: output[0] of rank 1 lacks the contribution of rank 0");
}

TEST(Verify, CatchesAnOutputThatIsNeverWritten) {
  Builder b("nothing", {.collective = Collective::kAllGather, .ranks = 1});
  expect_caught_only_by(&Checks::contributions,
                        plan_of(std::move(b).finish()),
                        "values: output[0] of rank 0 is never written");
}

TEST(Verify, CatchesListsOfDifferentLengths) {
  expect_caught_only_by(
      &Checks::lengths,
      plan_of(scatter_of_two({input_block(1), input_block(0)})),
      "values: rank 1 lane 0 step 0 (recv) has 2 blocks for the 1 blocks of `to`");
}

// Input to scratch to output on two lanes of one rank.
Schedule through_scratch(bool with_after) {
  Builder b("through_scratch", {.collective = Collective::kAllGather, .ranks = 1});
  const int stage = b.scratch("stage", 2, 1);
  const LaneId in = b.lane(0, Need::kMove);
  const LaneId out = b.lane(0, Need::kMove);
  const StepRef staged = b.copy(in, {input_block(0)}, {scratch_block(stage, 0)});
  b.copy(out, {scratch_block(stage, 0)}, {output_block(0)});
  if (with_after) {
    b.after(out, {staged});
  }
  return std::move(b).finish();
}

TEST(Verify, CatchesADroppedAfter) {
  expect_proved(plan_of(through_scratch(/*with_after=*/true)));
  expect_caught_only_by(&Checks::races,
                        plan_of(through_scratch(/*with_after=*/false)),
                        "race: rank 0 lane 1 step 0 (copy) reads scratch stage[0] of rank 0 while "
                        "rank 0 lane 0 step 0 (copy) writes it: nothing orders the two");
}

TEST(Verify, CatchesReadingWhatNobodyWrote) {
  Schedule schedule = through_scratch(/*with_after=*/true);
  schedule.ranks[0][1].steps.push_back(
      {.kind = StepKind::kCopy, .from = {scratch_block(0, 1)}, .to = {scratch_block(0, 0)}});
  expect_caught_only_by(&Checks::initialised,
                        plan_of(std::move(schedule)),
                        "values: rank 0 lane 1 step 1 (copy) reads scratch stage[1] of rank 0, "
                        "which nothing has written");
}

TEST(Verify, CatchesListsThatOverlap) {
  Builder b("swap", {.collective = Collective::kAllToAll, .ranks = 1});
  const int stage = b.scratch("stage", 2, 1);
  const LaneId lane = b.lane(0, Need::kMove);
  const Blocks both{scratch_block(stage, 0), scratch_block(stage, 1)};
  b.copy(lane, {input_block(0), input_block(0)}, both);
  b.copy(lane, both, {both[1], both[0]});
  b.copy(lane, {both[0]}, {output_block(0)});
  expect_caught_only_by(&Checks::overlaps,
                        plan_of(std::move(b).finish()),
                        "race: rank 0 lane 0 step 1 (copy) writes scratch stage[1] of rank 0 at "
                        "place 0 of its lists");
}

TEST(Verify, CatchesAFalseSingleHop) {
  Schedule schedule = chain(3);
  schedule.channels[1].single_hop = true;
  expect_caught_only_by(&Checks::single_hop,
                        plan_of(std::move(schedule)),
                        "sends what is not its own on channel 1 (single_hop)");
  Schedule staged = reduce_from({1, 2});
  staged.channels[0].single_hop = true;
  expect_proved(plan_of(std::move(staged)));
}

TEST(Verify, CatchesABarrierThatLetsARankThrough) {
  Builder b("half", {.collective = Collective::kBarrier, .ranks = 2});
  const auto lanes = b.lane_on_every_rank(Need::kMove);
  const int channel = b.channel(lanes[0], lanes[1]);
  b.token(lanes[0], {}, {channel});
  b.token(lanes[1], {channel}, {});
  expect_caught_only_by(&Checks::contributions,
                        plan_of(std::move(b).finish()),
                        "values: rank 0 can leave the barrier before rank 1 has come");
}

// --- Scaling ------------------------------------------------------------------------------------

TEST(Verify, CatchesContributionsThatAreNotScaledExactlyOnce) {
  Schedule schedule = reduce_from({1, 2});
  for (auto& lanes : schedule.ranks) {
    lanes[0].steps[0].pre = true;
  }
  expect_proved(plan_of(schedule));
  schedule.ranks[2][0].steps[0].pre = false;
  expect_caught_only_by(&Checks::scaling,
                        plan_of(schedule),
                        "values: rank 0 lane 0 step 0 (recv_reduce) adds scaled and unscaled");
}

TEST(Verify, CatchesASumThatIsNotScaledExactlyOnce) {
  Schedule once = reduce_from({1, 2});
  once.ranks[0][0].steps[0].post = true;
  expect_proved(plan_of(once));

  Schedule twice = once;
  twice.ranks[0][0].steps.push_back(
      {.kind = StepKind::kCopy, .from = {output_block(0)}, .to = {output_block(0)}, .post = true});
  expect_caught_only_by(&Checks::scaling, plan_of(twice), "scales the sum of block 0 twice");

  Schedule early = ring(3);
  early.ranks[1][0].steps[1].post = true;
  expect_refused(plan_of(early), "scales the sum of block 0, which has 2 of 3 contributions");

  // One of three blocks is scaled.
  Schedule some = ring(3);
  some.ranks[1][0].steps[3].post = true;
  expect_caught_only_by(&Checks::scaling, plan_of(some), "holds a sum that was not scaled");
}

// --- Protocols ----------------------------------------------------------------------------------

TEST(Protocols, RecursiveDoublingIsDeadWithDirectGet) {
  expect_proved(named_plan(Collective::kAllReduce, "recursive_doubling", 4, Protocol::kSlots));
  expect_refused(named_plan(Collective::kAllReduce, "recursive_doubling", 4, Protocol::kDirectGet),
                 "ends only when its blocks on channel");
}

TEST(Protocols, ADirectExchangeMayUseAll) {
  for (const Protocol protocol : {Protocol::kSlots,
                                  Protocol::kDirectGet,
                                  Protocol::kDirectPut,
                                  Protocol::kLl,
                                  Protocol::kLl128}) {
    expect_proved(named_plan(Collective::kAllToAll, "direct", 4, protocol));
  }
}

TEST(Protocols, DirectPutNeedsABlockOfTheRecipient) {
  expect_caught_only_by(&Checks::protocols,
                        plan_of(reduce_from({1, 2}), Protocol::kDirectPut),
                        "protocol: rank 0 lane 0 step 0 (recv_reduce) has no block of its own");
}

TEST(Protocols, DirectGetNeedsABlockOfTheSender) {
  Schedule schedule = fuse(chain(3));
  schedule.ranks[1][0].steps[0].to.clear();
  schedule.ranks[1][0].steps.push_back(
      {.kind = StepKind::kRecv, .to = {output_block(0)}, .in = {2}});
  schedule.channels.push_back({.writer = {0, 0}, .readers = {{1, 0}}});
  schedule.ranks[0][0].steps.push_back(
      {.kind = StepKind::kSend, .from = {input_block(0)}, .out = {2}});
  expect_proved(plan_of(schedule));
  expect_caught_only_by(&Checks::protocols,
                        plan_of(schedule, Protocol::kDirectGet),
                        "protocol: rank 1 lane 0 step 0 (recv) passes a message on to channel 1");
}

// Rank 0 fills its output[1] with something before it takes the right block.
TEST(Protocols, DirectPutRacesWithEarlierUsesOfTheDestination) {
  Builder b("early_use", {.collective = Collective::kAllGather, .ranks = 2});
  const auto lanes = b.lane_on_every_rank(Need::kMove);
  const int forth = b.channel(lanes[0], lanes[1]);
  const int back = b.channel(lanes[1], lanes[0]);
  b.copy(lanes[0], {input_block(0)}, {output_block(1)});
  b.copy(lanes[0], {input_block(0)}, {output_block(0)});
  b.send(lanes[1], {input_block(0)}, back);
  b.copy(lanes[1], {input_block(0)}, {output_block(1)});
  b.send(lanes[0], {input_block(0)}, forth);
  b.recv(lanes[0], back, {output_block(1)});
  b.recv(lanes[1], forth, {output_block(0)});
  const Schedule schedule = std::move(b).finish();
  expect_proved(plan_of(schedule));
  expect_caught_only_by(&Checks::races,
                        plan_of(schedule, Protocol::kDirectPut),
                        "race: rank 1 lane 0 step 0 (send) writes output[1] of rank 0 while rank 0 "
                        "lane 0 step 0 (copy) writes it");
}

// Everything is ordered by tokens, yet the put comes before a read that means the old value.
TEST(Protocols, DirectPutWritesWhenTheSenderRuns) {
  Builder b("too_early", {.collective = Collective::kAllGather, .ranks = 2});
  const auto lanes = b.lane_on_every_rank(Need::kMove);
  const int data = b.channel(lanes[0], lanes[1]);
  const int ready = b.channel(lanes[1], lanes[0]);
  const int done = b.channel(lanes[0], lanes[1]);
  const int back = b.channel(lanes[1], lanes[0]);
  b.copy(lanes[1], {input_block(0)}, {output_block(0)});
  b.token(lanes[1], {}, {ready});
  b.token(lanes[0], {ready}, {});
  b.send(lanes[0], {input_block(0)}, data);
  b.token(lanes[0], {}, {done});
  b.token(lanes[1], {done}, {});
  b.copy(lanes[1], {output_block(0)}, {output_block(1)});
  b.recv(lanes[1], data, {output_block(0)});
  b.send(lanes[1], {output_block(1)}, back);
  b.copy(lanes[0], {input_block(0)}, {output_block(0)});
  b.recv(lanes[0], back, {output_block(1)});
  Plan plan = plan_of(std::move(b).finish());
  expect_proved(plan);
  plan.strands[0].channels[static_cast<std::size_t>(data)].protocol = Protocol::kDirectPut;
  expect_refused(plan, "values: output[1] of rank 0 lacks the contribution of rank 1");
}

// Rank 0 sends into a scratch of rank 1, which empties it in a second step.
Plan put_into_scratch(int depth, int slots) {
  Builder b("put", {.collective = Collective::kBroadcast, .ranks = 2});
  const int stage = b.scratch("stage", 1, depth);
  const auto lanes = b.lane_on_every_rank(Need::kMove);
  const int channel = b.channel(lanes[0], lanes[1]);
  b.send(lanes[0], {input_block(0)}, channel);
  b.copy(lanes[0], {input_block(0)}, {output_block(0)});
  b.recv(lanes[1], channel, {scratch_block(stage, 0)});
  b.copy(lanes[1], {scratch_block(stage, 0)}, {output_block(0)});
  return plan_of(std::move(b).finish(), Protocol::kDirectPut, slots);
}

TEST(Protocols, DirectPutIntoScratchNeedsMoreDepthThanSlots) {
  for (int depth = 1; depth <= 4; ++depth) {
    for (int slots = 1; slots <= 4; ++slots) {
      SCOPED_TRACE(fmt::format("depth {}, {} slots", depth, slots));
      const Plan plan = put_into_scratch(depth, slots);
      if (depth > slots) {
        expect_proved(plan);
      } else {
        expect_caught_only_by(&Checks::scratch_reuse, plan, "the scratch needs more depth");
      }
    }
  }
}

TEST(Protocols, ThatAreLegalForEachChannel) {
  const auto words = [](const Schedule& schedule) {
    std::string text;
    for (const ProtocolSet& set : legal_protocols(plan_of(schedule), 0)) {
      text += fmt::format(
          "{}{}{} ", set.slots ? "s" : "", set.direct_get ? "g" : "", set.direct_put ? "p" : "");
    }
    return text;
  };
  EXPECT_EQ(words(chain(3)), "sgp sgp ");
  EXPECT_EQ(words(reduce_from({1, 2})), "sg sg ");
}

// --- Links and rounds ---------------------------------------------------------------------------

TEST(Traffic, CountsBlocksThatOnlyPassThrough) {
  for (const Schedule& schedule : {ring(4), fuse(ring(4))}) {
    const std::vector<std::int64_t> blocks = link_blocks(schedule);
    for (std::size_t from = 0; from < 4; ++from) {
      for (std::size_t to = 0; to < 4; ++to) {
        EXPECT_EQ(blocks[from * 4 + to], to == (from + 1) % 4 ? 6 : 0);
      }
    }
  }
}

TEST(Traffic, CountsTheLongestChainOfMessages) {
  EXPECT_EQ(longest_chain(ring(4)), 6);
  EXPECT_EQ(longest_chain(fuse(ring(4))), 6);
  EXPECT_EQ(longest_chain(chain(5)), 4);
  EXPECT_EQ(longest_chain(two_shot(4, /*three_lanes=*/true)), 2);
  EXPECT_EQ(longest_chain(through_scratch(/*with_after=*/true)), 0);
  EXPECT_EQ(longest_chain(exchange(3, First::kRecv, /*by_round=*/true)), -1);
}

}  // namespace
}  // namespace sennit
