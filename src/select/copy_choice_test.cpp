#include "select/copy_choice.hpp"

#include "select/testing/chosen.hpp"
#include "verify/verify.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sennit::tests {
namespace {

// Of all ranks together.
TEST(CopyChoice, LeavesLargeCallsToCopyEnginesThatPut) {
  const DeviceFacts facts{.copy_engines = true, .offers = true};
  const auto expect = [&](Collective collective, std::int64_t from, bool whole) {
    for (const int ranks : {3, 4, 8}) {
      const std::int64_t bytes = whole ? from : (from + ranks - 1) / ranks;
      const DeviceChoice choice = chosen(collective, ranks, bytes, {}, facts);
      EXPECT_EQ(choice.engine, Engine::kStream) << name(collective) << " of " << ranks;
      EXPECT_EQ(choice.protocol, Protocol::kDirectPut);
      EXPECT_EQ(chosen(collective, ranks, bytes - 16, {}, facts).engine, Engine::kSm);
      EXPECT_EQ(chosen(collective, ranks, bytes, {}, {.offers = true}).engine, Engine::kSm);
    }
  };
  expect(Collective::kAllGather, usual_profile().copies_from_bytes, false);
  expect(Collective::kAllToAll, usual_profile().copies_from_bytes, false);
  expect(Collective::kAllReduce, usual_profile().all_reduce_copies_from_bytes, true);
  expect(Collective::kReduceScatter, usual_profile().reduce_scatter_copies_from_bytes, false);
  EXPECT_EQ(
      chosen(Collective::kAllReduce, 2, usual_profile().all_reduce_copies_from_bytes, {}, facts)
          .engine,
      Engine::kStream);
  EXPECT_EQ(chosen(Collective::kReduceScatter,
                   2,
                   usual_profile().reduce_scatter_copies_from_bytes,
                   {},
                   facts)
                .engine,
            Engine::kSm);
}

// A leader's plan has one strand: what is to be shared with the host goes by copy engines of all.
TEST(CopyChoice, ALeaderRunsWhatIsNotSharedWithTheHost) {
  DeviceFacts facts = both_paths();
  facts.sharing = DeviceSharing::kInTurn;
  for (const bool shares : {false, true}) {
    const CallRequest request = shares ? over("nvlink+host:20") : CallRequest();
    const DeviceChoice choice = chosen(Collective::kAllGather, 2, 1 << 20, request, facts);
    EXPECT_EQ(choice.host_share > 0, shares);
    const auto plan = make_device_plan(choice, {.ranks = 2}, facts);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_EQ((*plan)->strands.front().by_leader, !shares);
    EXPECT_EQ((*plan)->strands.size(), shares ? 2U : 1U);
  }
}

// Kernels that wait for each other take milliseconds there.
TEST(CopyChoice, RanksInTurnRunANamedAlgorithmByCopiesIfItCanBeCopied) {
  DeviceFacts facts = both_paths();
  facts.sharing = DeviceSharing::kInTurn;
  const auto engine = [&](Collective collective, const CallRequest& request) {
    return chosen(collective, 4, 64, request, facts).engine;
  };
  EXPECT_EQ(engine(Collective::kAllReduce, requesting("", "", "leader")), Engine::kStream);
  EXPECT_EQ(engine(Collective::kAllReduce, requesting("", "", "two_shot")), Engine::kStream);
  EXPECT_EQ(engine(Collective::kAllReduce, requesting("", "ll", "two_shot")), Engine::kSm);
  EXPECT_EQ(engine(Collective::kReduce, requesting("", "", "scatter_gather")), Engine::kSm);
  EXPECT_EQ(engine(Collective::kBroadcast, requesting("", "", "scatter_forward")), Engine::kSm);
}

TEST(CopyChoice, CopyEnginesRunWhatRequestsThem) {
  for (const auto& [collective, protocol] :
       {std::pair(Collective::kSendRecv, Protocol::kDirectGet),
        std::pair(Collective::kAllGather, Protocol::kDirectPut),
        std::pair(Collective::kBroadcast, Protocol::kDirectPut),
        std::pair(Collective::kReduce, Protocol::kDirectPut)}) {
    const DeviceChoice choice = chosen(collective, 2, 8, requesting("", "copy_engines"));
    EXPECT_EQ(choice.engine, Engine::kStream);
    EXPECT_EQ(choice.protocol, protocol);
  }
  EXPECT_TRUE(contains(refusal(Collective::kAllGather, requesting("", "copy_engines"), {}),
                       "SENNIT_COPY_ENGINES"));
  EXPECT_TRUE(contains(refusal(Collective::kAllGather, requesting("", "direct_get"), both_paths()),
                       "request copy_engines"));
  EXPECT_TRUE(contains(refusal(Collective::kBarrier, requesting("", "copy_engines"), both_paths()),
                       "barrier"));
}

// One-shot is no slower between two ranks, but reads what it overwrites where calls are in place;
// and sums that are passed on without having been stored cannot be put anywhere.
TEST(CopyChoice, ReductionsStoreWhatTheySum) {
  const auto algorithm = [](Collective collective, int ranks, const std::string& protocol) {
    return chosen(collective, ranks, kMega, requesting("", protocol)).algorithm->name;
  };
  EXPECT_EQ(algorithm(Collective::kAllReduce, 2, "copy_engines"), "two_shot");
  EXPECT_EQ(algorithm(Collective::kAllReduce, 2, "ll128"), "one_shot");
  EXPECT_EQ(algorithm(Collective::kReduce, 4, "copy_engines"), "direct");
  EXPECT_EQ(algorithm(Collective::kReduce, 4, "ll128"), "scatter_gather");
}

// Its schedule for ranks that make no rectangle has channels that nobody uses.
TEST(CopyChoice, PlansThatAreNoneAreRefused) {
  const DeviceChoice choice =
      chosen(Collective::kAllGather, 5, kMega, requesting("", "copy_engines", "multi_rail"));
  EXPECT_FALSE(make_device_plan(choice, {.ranks = 5}, both_paths()).ok());
}

TEST(CopyChoice, PlansOfReductionsAreProvedInPlace) {
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduce}) {
    for (const int ranks : {2, 3, 8}) {
      const DeviceChoice choice =
          chosen(collective, ranks, kMega, requesting("", std::string(kByCopyEngines)));
      const auto plan = make_device_plan(choice, {.ranks = ranks}, both_paths());
      ASSERT_TRUE(plan.ok()) << plan.status().message();
      const auto proof = verify(**plan);
      ASSERT_TRUE(proof.ok()) << proof.status().message();
      EXPECT_TRUE(proof->in_place) << proof->why_not_in_place;
      EXPECT_TRUE(proof->reproducible);
    }
  }
}

}  // namespace
}  // namespace sennit::tests
