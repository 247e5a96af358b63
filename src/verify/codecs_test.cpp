// Codecs in plans: what is coded once, and everywhere, is proved, and what is not is refused.
#include "algo/algorithm.hpp"
#include "base/testing/trials.hpp"
#include "codec/tables.hpp"
#include "schedule/builder.hpp"
#include "schedule/scaling.hpp"
#include "verify/checks.hpp"
#include "verify/sweep.hpp"
#include "verify/testing/expectations.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sennit {
namespace {

using namespace std::string_view_literals;
using namespace verify_test;

Plan coded_plan(Collective collective, std::string_view algorithm, int ranks, Codec codec) {
  Plan plan = named_plan(collective, algorithm, ranks, Protocol::kSlots);
  set_codec(plan.strands.front(), codec);
  return plan;
}

// ---- Which algorithms can have one ----

struct Row {
  Collective collective;
  std::string algorithm;

  auto operator<=>(const Row&) const = default;
};

// Those that are proved for all of `ranks`, and those that are for none of more than two.
struct Sorted {
  std::vector<Row> always;
  std::vector<Row> sometimes;
};

Sorted sorted_by(Codec codec, int ranks_last) {
  Sorted sorted;
  for (const Collective collective : kCollectives) {
    for (const Algorithm& algorithm : algorithms(collective)) {
      const SweepResult result = sweep({.collective = collective,
                                        .algorithm = std::string(algorithm.name),
                                        .ranks_first = 1,
                                        .ranks_last = ranks_last,
                                        .codec = codec});
      EXPECT_EQ(result.failed, 0) << algorithm.name;
      (result.coded == result.instances ? sorted.always : sorted.sometimes)
          .push_back({collective, std::string(algorithm.name)});
    }
  }
  return sorted;
}

std::string in_words(const std::vector<Row>& rows) {
  std::string words;
  for (const Row& row : rows) {
    words += fmt::format("{} {}\n", name(row.collective), row.algorithm);
  }
  return words;
}

TEST(CodecsInPlans, LossyOnesAreProvedWhereNothingIsCodedTwice) {
  EXPECT_EQ(in_words(sorted_by(Codec::kQ8, 12).always),
            "all_reduce two_shot\n"
            "all_reduce one_shot\n"
            "all_reduce leader\n"
            "reduce direct\n"
            "reduce scatter_gather\n"
            "broadcast chain\n"
            "broadcast direct\n"
            "broadcast scatter_forward\n"
            "broadcast hub\n"
            "all_gather ring\n"
            "all_gather direct\n"
            "all_gather multi_rail\n"
            "all_gather hub\n"
            "reduce_scatter direct\n"
            "all_to_all direct\n"
            "all_to_all pairwise\n"
            "gather direct\n"
            "scatter direct\n"
            "barrier dissemination\n"
            "barrier tree\n"
            "send_recv direct\n");
}

// What calls choose by themselves, up to the most ranks that are proved.
TEST(CodecsInPlans, ThoseOfCallsAreProvedForManyRanks) {
  for (const auto& [collective, algorithm] : {std::pair{Collective::kAllReduce, "two_shot"},
                                              {Collective::kAllReduce, "one_shot"},
                                              {Collective::kReduce, "direct"},
                                              {Collective::kBroadcast, "direct"},
                                              {Collective::kAllGather, "direct"},
                                              {Collective::kReduceScatter, "direct"},
                                              {Collective::kAllToAll, "direct"},
                                              {Collective::kGather, "direct"},
                                              {Collective::kScatter, "direct"}}) {
    const SweepResult result = sweep({.collective = collective,
                                      .algorithm = algorithm,
                                      .ranks_first = 13,
                                      .ranks_last = trials(64, 16),
                                      .codec = Codec::kQ8});
    EXPECT_GT(result.coded, 0) << name(collective) << " " << algorithm;
    EXPECT_EQ(result.coded, result.instances) << name(collective) << " " << algorithm;
  }
}

TEST(CodecsInPlans, LosslessOnesAreProvedEverywhere) {
  EXPECT_EQ(in_words(sorted_by(Codec::kExact, 12).sometimes), "");
}

// ---- In place, scaled, where lengths vary ----

TEST(CodecsInPlans, SumsThatAreSentAreKeptAsTheOthersGetThem) {
  const Result<Proof> proof = verify(coded_plan(Collective::kAllReduce, "two_shot", 3, Codec::kQ8));
  ASSERT_TRUE(proof.ok()) << proof.status().message();
  EXPECT_TRUE(proof->in_place);
  EXPECT_FALSE(proof->reproducible) << "what is lost depends on where blocks begin";
}

// In place, what a rank keeps overwrites what it has still to send.
TEST(CodecsInPlans, WhatIsKeptOfAnInputRacesInPlaceWithItsSends) {
  const Result<Proof> proof = verify(coded_plan(Collective::kBroadcast, "direct", 3, Codec::kQ8));
  ASSERT_TRUE(proof.ok()) << proof.status().message();
  EXPECT_FALSE(proof->in_place);
  EXPECT_TRUE(proof->why_not_in_place.starts_with("race: ")) << proof->why_not_in_place;
  EXPECT_TRUE(verify(coded_plan(Collective::kBroadcast, "direct", 3, Codec::kExact))->in_place);
}

TEST(CodecsInPlans, ScaledValuesAreCodedAfterwards) {
  for (const std::string_view algorithm : {"one_shot", "two_shot"}) {
    for (const ScaledParts parts : {ScaledParts{.contributions = true, .sums = false},
                                    ScaledParts{.contributions = false, .sums = true}}) {
      const Algorithm* row = *find_algorithm(Collective::kAllReduce, algorithm);
      for (const int ranks : {1, 2, 5}) {
        const Schedule schedule = *make_schedule(*row, {.ranks = ranks});
        Plan plan = plan_of(*mark_scaling(schedule, parts));
        set_codec(plan.strands.front(), Codec::kMx8);
        const Result<Proof> proof = verify(plan);
        ASSERT_TRUE(proof.ok()) << proof.status().message();
        EXPECT_EQ(proof->scaled, parts);
      }
    }
  }
}

TEST(CodecsInPlans, AreProvedWhereLengthsVary) {
  for (const Collective collective : kCollectives) {
    if (!has_varying_form(collective)) {
      continue;
    }
    Shape shape;
    shape.ranks = 4;
    shape.varying = true;
    Plan plan = plan_of(*make_schedule(**find_algorithm(collective, "direct"), shape));
    set_codec(plan.strands.front(), Codec::kZfp16);
    expect_proved(plan);
  }
}

// ---- Mistakes ----

TEST(CodecsInPlans, WhatIsNotCodedAtHomeIsRefused) {
  for (const auto& [collective, algorithm] :
       {std::pair{Collective::kAllGather, "direct"}, {Collective::kBroadcast, "k_nomial"}}) {
    Plan plan = coded_plan(collective, algorithm, 3, Codec::kQ8);
    plan.strands.front().home_codec = std::nullopt;
    expect_refused(plan, "was not coded, unlike others");
  }
  for (const auto& [collective, algorithm] : {std::pair{Collective::kAllReduce, "one_shot"},
                                              {Collective::kReduce, "direct"},
                                              {Collective::kReduceScatter, "direct"}}) {
    Plan plan = coded_plan(collective, algorithm, 3, Codec::kQ8);
    plan.strands.front().home_codec = std::nullopt;
    expect_refused(plan, "a contribution that was not coded");
  }
}

TEST(CodecsInPlans, WhatOneRankAloneGetsStaysExactAtHome) {
  for (const Collective collective :
       {Collective::kAllToAll, Collective::kGather, Collective::kScatter}) {
    Plan plan = coded_plan(collective, "direct", 3, Codec::kQ8);
    plan.strands.front().home_codec = Codec::kQ8;
    expect_caught_only_by(&Checks::coding, plan, "stays at home, where it has to be exact");
  }
}

// A step copies the input to where it is sent from: coded there, and once more on the way.
TEST(CodecsInPlans, CodingTwiceIsRefused) {
  Builder b("staged", {.collective = Collective::kReduce, .ranks = 2});
  const int stage = b.scratch("stage", 1, 1);
  const auto lanes = b.lane_on_every_rank(Need::kReduce);
  const int channel = b.channel(lanes[1], lanes[0]);
  b.copy(lanes[1], {input_block(0)}, {scratch_block(stage, 0)});
  b.send(lanes[1], {scratch_block(stage, 0)}, channel);
  b.recv_reduce(lanes[0], channel, {input_block(0)}, {output_block(0)});
  Plan plan = plan_of(std::move(b).finish());
  set_codec(plan.strands.front(), Codec::kQ8);
  expect_refused(plan, "rank 1 lane 0 step 1 (send) codes block 0 by q8 after it was coded");
}

TEST(CodecsInPlans, CodingAgainOnTheWayIsRefused) {
  // A forward that was not fused stores values, and sends them as its own.
  Builder b("by_hand", {.collective = Collective::kBroadcast, .ranks = 3});
  const auto lanes = b.lane_on_every_rank(Need::kMove);
  const int first = b.channel(lanes[0], lanes[1]);
  const int second = b.channel(lanes[1], lanes[2]);
  b.send(lanes[0], {input_block(0)}, first);
  b.copy(lanes[0], {input_block(0)}, {output_block(0)});
  b.recv(lanes[1], first, {output_block(0)});
  b.send(lanes[1], {output_block(0)}, second);
  b.recv(lanes[2], second, {output_block(0)});
  Plan plan = plan_of(std::move(b).finish());
  set_codec(plan.strands.front(), Codec::kQ8);
  expect_refused(plan, "rank 1 lane 0 step 1 (send) codes block 0 by q8 after it was coded");
  expect_refused(coded_plan(Collective::kAllGather, "recursive_doubling", 4, Codec::kQ8),
                 "after it was coded");
}

TEST(CodecsInPlans, AddingWhatWasCodedAfterItWasAddedIsRefused) {
  for (const auto& [collective, algorithm] : {std::pair{Collective::kAllReduce, "ring"},
                                              {Collective::kReduceScatter, "ring"},
                                              {Collective::kReduce, "chain"}}) {
    expect_caught_only_by(&Checks::coding,
                          coded_plan(collective, algorithm, 4, Codec::kQ8),
                          "adds on the way cannot have a lossy codec");
  }
}

// The owner of a sum stores it, and sends what it has stored.
TEST(CodecsInPlans, AnOwnerThatKeepsItsSumUncodedIsRefused) {
  Builder b("two_shot", {.collective = Collective::kAllReduce, .ranks = 2, .cut = 2});
  const auto sums = b.lane_on_every_rank(Need::kReduce);
  const auto rest = b.lane_on_every_rank(Need::kMove);
  for (const int rank : {0, 1}) {
    const auto own = static_cast<std::size_t>(rank);
    const std::size_t peer = 1 - own;
    const int there = b.channel(rest[peer], sums[own]);
    b.send(rest[peer], {input_block(rank)}, there);
    b.recv_reduce(sums[own], there, {input_block(rank)}, {output_block(rank)});
    const int back = b.channel(sums[own], rest[peer]);
    b.send(sums[own], {output_block(rank)}, back);
    b.recv(rest[peer], back, {output_block(rank)});
  }
  Plan plan = plan_of(std::move(b).finish());
  expect_proved(plan);
  set_codec(plan.strands.front(), Codec::kQ8);
  expect_refused(plan, "has another expression tree than on rank 0");
}

TEST(CodecsInPlans, OneChannelWithoutTheCodecIsRefused) {
  for (const auto& [collective, algorithm] : {std::pair{Collective::kAllToAll, "direct"},
                                              {Collective::kAllGather, "direct"},
                                              {Collective::kScatter, "direct"},
                                              {Collective::kAllReduce, "one_shot"},
                                              {Collective::kAllReduce, "two_shot"},
                                              {Collective::kReduceScatter, "direct"}}) {
    const Plan plan = coded_plan(collective, algorithm, 3, Codec::kQ8);
    for (std::size_t c = 0; c < plan.strands.front().channels.size(); ++c) {
      Plan odd = plan;
      odd.strands.front().channels[c].codec = std::nullopt;
      EXPECT_FALSE(verify(odd).ok()) << algorithm << ", channel " << c;
      odd.strands.front().channels[c].codec = Codec::kMx8;
      // Another one is a mistake where ranks have to get the same bits of one contribution.
      const bool is_shared = collective == Collective::kAllGather || algorithm == "one_shot"sv;
      const bool is_sum =
          algorithm == "two_shot"sv && c >= plan.strands.front().channels.size() / 2;
      EXPECT_EQ(verify(odd).ok(), !is_shared && !is_sum) << algorithm << ", channel " << c;
    }
  }
}

TEST(CodecsInPlans, ABundleAPutAndAFetchCannotHaveOne) {
  const Plan plan = coded_plan(Collective::kAllToAll, "direct", 3, Codec::kExact);
  Plan bundle = plan;
  bundle.strands.front().channels[0].paths = {PathKind::kShm, PathKind::kCma};
  expect_refused(bundle, "structure: strand 0: a bundle cannot have codec exact");
  for (const Protocol protocol : {Protocol::kDirectGet, Protocol::kDirectPut}) {
    Plan direct = plan;
    direct.strands.front().channels[2].protocol = protocol;
    expect_refused(direct, "protocol: channel 2 has codec exact, but ");
  }
}

TEST(CodecsInPlans, StrandsAndTilesDoNotCutBlocksOfACodec) {
  Plan plan = coded_plan(Collective::kAllToAll, "direct", 3, Codec::kQ8);
  plan.strands.front().tile_bytes = kCodedTileAlignBytes / 2;
  expect_refused(plan, "structure: tiles with a codec are multiples of 2048 bytes, not 1024");
  plan.strands.front().tile_bytes = kCodedTileAlignBytes;
  expect_proved(plan);
  plan.strands.push_back(plan.strands.front());
  expect_refused(plan, "structure: a plan with a codec has one strand");
}

}  // namespace
}  // namespace sennit
