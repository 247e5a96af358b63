#include "select/packet_choice.hpp"
#include "select/testing/chosen.hpp"
#include "verify/verify.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace sennit::tests {
namespace {

TEST(DeviceChoice, SendsAShareThroughTheHostWhereItPays) {
  EXPECT_EQ(chosen(Collective::kAllGather, 2, 384 * kMega, {}).host_share, 8);
  EXPECT_EQ(chosen(Collective::kAllGather, 2, 192 * kMega, {}).host_share, 6);
  EXPECT_EQ(chosen(Collective::kAllGather, 2, 128 * kMega, {}).host_share, 0);
  EXPECT_EQ(chosen(Collective::kAllToAll, 2, 192 * kMega, {}).host_share, 6);
  EXPECT_EQ(chosen(Collective::kAllToAll, 2, 384 * kMega, {}).host_share, 8);
  EXPECT_EQ(chosen(Collective::kAllGather, 4, 192 * kMega, {}).host_share, 0);
  EXPECT_EQ(chosen(Collective::kBroadcast, 2, 256 * kMega, {}).host_share, 8);
  EXPECT_EQ(chosen(Collective::kBroadcast, 2, 512 * kMega, {}).host_share, 10);
  EXPECT_EQ(chosen(Collective::kBroadcast, 4, 256 * kMega, {}).host_share, 0);
  EXPECT_EQ(chosen(Collective::kAllGather, 4, 16 * kMega, {}).host_share, 0);
  EXPECT_EQ(chosen(Collective::kAllToAll, 4, 256 * kMega, {}).host_share, 0);
  EXPECT_EQ(chosen(Collective::kAllGather, 8, 256 * kMega, {}).host_share, 0);
  EXPECT_EQ(chosen(Collective::kAllGather, 4, 64 * kMega, {}, {.copy_engines = true}).host_share,
            0);
  EXPECT_EQ(chosen(Collective::kAllGather, 4, 64 * kMega, requesting("", "ll128")).host_share, 0);
}

TEST(DeviceChoice, LeavesLargeBroadcastsBetweenTwoToCopyEnginesAndBothPaths) {
  const DeviceFacts facts{.copy_engines = true, .host_slots = 4, .offers = true};
  const auto expect = [&](int ranks, std::int64_t bytes, Engine engine, int share) {
    const DeviceChoice choice = chosen(Collective::kBroadcast, ranks, bytes, {}, facts);
    EXPECT_EQ(choice.engine, engine) << bytes;
    EXPECT_EQ(choice.host_share, share) << bytes;
  };
  expect(2, usual_profile().broadcast_copies_from_bytes, Engine::kStream, 8);
  expect(2, usual_profile().broadcast_copies_from_bytes - 16, Engine::kSm, 0);
  expect(4, 1024 * kMega, Engine::kSm, 0);
}

TEST(DeviceChoice, TakesTheShareThatWasSet) {
  DeviceFacts facts = both_paths();
  facts.host_share = 12;
  EXPECT_EQ(chosen(Collective::kAllToAll, 4, 256 * kMega, {}, facts).host_share, 12);
  EXPECT_EQ(chosen(Collective::kAllReduce, 4, 256 * kMega, {}, facts).host_share, 0);
  facts.host_share = 0;
  EXPECT_EQ(chosen(Collective::kAllGather, 4, 256 * kMega, {}, facts).host_share, 0);
}

TEST(DeviceChoice, TakesThePathsThatACallRequests) {
  EXPECT_EQ(chosen(Collective::kAllGather, 4, 100, over("nvlink+host:7")).host_share, 7);
  EXPECT_EQ(chosen(Collective::kAllGather, 4, 64 * kMega, over("nvlink")).host_share, 0);
  EXPECT_EQ(chosen(Collective::kAllGather, 2, 384 * kMega, over("nvlink+host")).host_share, 8);
  const DeviceChoice whole = chosen(Collective::kScatter, 4, 100, over("host"));
  EXPECT_EQ(whole.host_share, 100);
  EXPECT_EQ(whole.protocol, Protocol::kSlots);
  EXPECT_EQ(chosen(Collective::kBroadcast, 4, 100, over("nvlink+host:100")).algorithm->name, "hub");
}

TEST(DeviceChoice, RunsStepByStepWhatHasManyHopsAndNothingElseByItself) {
  for (const DeviceFacts& facts : {both_paths(), without_nvlink()}) {
    for (const CallRequest& request : {requesting("", "", "ring"),
                                       requesting("", "slots", "ring"),
                                       requesting("", "", "hierarchical")}) {
      const DeviceChoice choice = chosen(Collective::kAllReduce, 4, kMega, request, facts);
      EXPECT_TRUE(choice.by_steps) << request.algorithm;
      EXPECT_EQ(choice.protocol, Protocol::kSlots);
      EXPECT_EQ(choice.host_share, 0);
    }
    for (const Collective collective : {Collective::kAllReduce, Collective::kAllGather}) {
      for (const std::int64_t bytes : {std::int64_t{8}, 1024 * kMega}) {
        EXPECT_FALSE(chosen(collective, 4, bytes, {}, facts).by_steps);
      }
    }
    EXPECT_FALSE(
        chosen(Collective::kAllReduce, 4, kMega, requesting("", "", "two_shot"), facts).by_steps);
    EXPECT_FALSE(
        chosen(Collective::kAllReduce, 4, kMega, requesting("", "ll", "ring"), facts).by_steps);
  }
  // Slots of one or two hops are packets, or those of copy engines.
  EXPECT_FALSE(chosen(Collective::kAllReduce, 4, 8, requesting("", "slots")).by_steps);
  EXPECT_FALSE(
      chosen(Collective::kAllGather, 4, 8, requesting("", "slots"), without_nvlink()).by_steps);
  EXPECT_FALSE(
      chosen(Collective::kReduce, 4, 8, requesting("", "slots"), without_nvlink()).by_steps);
}

TEST(DeviceChoice, StepsTakeTheWiresOfEachGroup) {
  DeviceFacts facts = without_nvlink();
  facts.groups = {{0, 2}, {1, 3}};
  const Shape shape{.ranks = 4, .groups = facts.groups};
  const DeviceChoice choice =
      chosen(Collective::kAllReduce, 4, kMega, requesting("", "", "hierarchical"), facts);
  const auto plan = make_device_plan(choice, shape, facts);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_TRUE(verify(**plan).ok());
  const Strand& strand = (*plan)->strands.front();
  int between = 0;
  for (std::size_t c = 0; c < strand.channels.size(); ++c) {
    const Channel& channel = strand.schedule->channels[c];
    const bool far = channel.writer.rank % 2 != channel.readers.front().rank % 2;
    EXPECT_EQ(strand.channels[c].paths.front(), far ? PathKind::kHost : PathKind::kNvlink);
    between += far ? 1 : 0;
  }
  EXPECT_EQ(between, 2);  // the two leaders alone cross
  EXPECT_TRUE(contains(refusal(Collective::kAllReduce, requesting("host", "", "ring"), facts),
                       "request no path"));
}

TEST(DeviceChoice, StepsTakeThePathThatThereIs) {
  for (const DeviceFacts& facts : {both_paths(), without_nvlink()}) {
    const DeviceChoice choice =
        chosen(Collective::kAllReduce, 4, kMega, requesting("", "", "ring"), facts);
    const auto plan = make_device_plan(choice, {.ranks = 4}, facts);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    for (const ChannelBinding& binding : (*plan)->strands.front().channels) {
      EXPECT_EQ(binding.paths.front(), facts.reach ? PathKind::kNvlink : PathKind::kHost);
      EXPECT_EQ(binding.protocol, Protocol::kSlots);
    }
  }
}

TEST(DeviceChoice, EveryPlanOfKernelsThroughTheHostIsProved) {
  for (const Collective collective : {Collective::kAllReduce,
                                      Collective::kReduce,
                                      Collective::kReduceScatter,
                                      Collective::kBroadcast,
                                      Collective::kGather,
                                      Collective::kScatter}) {
    for (const int ranks : {1, 2, 5, 16}) {
      for (const std::int64_t bytes : {std::int64_t{8}, 256 * kMega}) {
        for (const std::string protocol : {"ll", "slots"}) {
          DeviceFacts facts = without_nvlink();
          facts.copy_engines = false;
          const DeviceChoice choice =
              chosen(collective, ranks, bytes, requesting("", protocol), facts);
          EXPECT_EQ(name(choice.protocol), protocol);
          const auto plan = make_device_plan(choice, {.ranks = ranks}, facts);
          ASSERT_TRUE(plan.ok()) << plan.status().message();
          const auto proof = verify(**plan);
          EXPECT_TRUE(proof.ok()) << name(collective) << ": " << proof.status().message();
        }
      }
    }
  }
}

TEST(DeviceChoice, LargeReducesAreProvedInPlaceAndInTheOrderOfRanks) {
  for (const int ranks : {3, 4, 8, 16}) {
    for (const std::string protocol : {"ll", "ll128", "slots"}) {
      const DeviceChoice choice =
          chosen(Collective::kReduce, ranks, 256 * kMega, requesting("", protocol));
      EXPECT_EQ(choice.algorithm->name, "scatter_gather");
      EXPECT_EQ(name(choice.protocol), protocol);
      const auto plan = make_device_plan(choice, {.ranks = ranks, .root = ranks / 2}, both_paths());
      ASSERT_TRUE(plan.ok()) << plan.status().message();
      const auto proof = verify(**plan);
      ASSERT_TRUE(proof.ok()) << proof.status().message();
      EXPECT_TRUE(proof->in_place) << proof->why_not_in_place;
      EXPECT_TRUE(proof->reproducible);
    }
  }
}

// A copy goes whole one way or the other: in percent of the copies.
TEST(DeviceChoice, SendsCopiesOfASharedBufferThroughTheHost) {
  const DeviceFacts& facts = both_paths();
  for (const auto& [percent, through_host] :
       {std::pair(0, 0), std::pair(20, 1), std::pair(50, 2), std::pair(100, 4)}) {
    const CallRequest request =
        requesting(fmt::format("nvlink+host:{}", percent), "copy_engines", "shared_buffer");
    const Shape shape{.ranks = 5};
    const Result<DeviceChoice> choice =
        choose_for_devices(Collective::kAllReduce, shape, 1000, request, facts, Means::of(facts));
    ASSERT_TRUE(choice.ok()) << choice.status().message();
    const auto plan = make_device_plan(*choice, shape, facts);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    const Strand& strand = (*plan)->strands.front();
    EXPECT_EQ(std::ranges::count(
                  strand.channels, std::vector<Path>{PathKind::kHost}, &ChannelBinding::paths),
              2 * through_host);
    const Result<Proof> proof = verify(**plan);
    ASSERT_TRUE(proof.ok()) << proof.status().message();
    EXPECT_TRUE(proof->in_place);
  }
}

TEST(DeviceChoice, RefusesByNameWhatItCannotDo) {
  EXPECT_TRUE(contains(refusal(Collective::kAllGather, over("smoke")), "no path 'smoke'"));
  EXPECT_TRUE(contains(refusal(Collective::kAllGather, over("nvlink+host:x")), "in percent"));
  EXPECT_TRUE(contains(refusal(Collective::kAllGather, over("nvlink+host:101")), "0 to 100"));
  EXPECT_TRUE(
      contains(refusal(Collective::kAllReduce, over("host")), "no all_reduce over path host"));
  EXPECT_TRUE(contains(refusal(Collective::kAllGather, over("host"), {.copy_engines = true}),
                       "SENNIT_HOST_RING_BYTES"));
  EXPECT_TRUE(
      contains(refusal(Collective::kAllGather, requesting("host", "ll")), "protocol slots"));
  EXPECT_TRUE(contains(refusal(Collective::kBroadcast, requesting("nvlink+host:5", "", "direct")),
                       "does not share its message"));
  EXPECT_TRUE(contains(
      refusal(Collective::kReduce, requesting("", "copy_engines", "scatter_gather"), both_paths()),
      "stored nowhere"));
}

TEST(DeviceChoice, GivesRareOperatorsTheKernelsThatTheyHave) {
  const auto choose_and =
      [](std::int64_t bytes, const CallRequest& request, const DeviceFacts& facts) {
        return choose_for_devices(Collective::kAllReduce,
                                  {.ranks = 4},
                                  bytes,
                                  request,
                                  facts,
                                  Means::of(facts, ReduceOp::kBitwiseAnd));
      };
  for (const std::int64_t bytes : {std::int64_t{1}, kKilo, kMega, 1024 * kMega}) {
    const DeviceChoice over_nvlink = *choose_and(bytes, {}, both_paths());
    EXPECT_EQ(over_nvlink.protocol, Protocol::kLl) << bytes;
    EXPECT_EQ(over_nvlink.engine, Engine::kSm) << bytes;
    EXPECT_EQ(over_nvlink.host_share, 0) << bytes;
    const DeviceChoice over_host = *choose_and(bytes, {}, without_nvlink());
    EXPECT_EQ(over_host.by_steps, bytes >= kMega) << bytes;
    EXPECT_TRUE(over_host.by_steps || over_host.protocol == Protocol::kLl) << bytes;
  }
  EXPECT_TRUE(choose_and(kMega, requesting({}, {}, "ring"), both_paths())->by_steps);
  for (const auto& request : {requesting({}, "ll128"),
                              requesting({}, "copy_engines"),
                              over("host"),
                              over("nvlink+host:8")}) {
    const Status refused = choose_and(kMega, request, both_paths()).status();
    EXPECT_EQ(refused.code(), Code::kUnsupported);
    EXPECT_TRUE(contains(refused.message(), "go by protocol ll or step by step"));
  }
  EXPECT_EQ(Means::of(both_paths(), ReduceOp::kMax), Means::of(both_paths()));
}

TEST(DeviceChoice, EveryPlanOfTwoStrandsIsProved) {
  for (const Collective collective :
       {Collective::kAllGather, Collective::kBroadcast, Collective::kAllToAll}) {
    for (int ranks = 2; ranks <= 8; ++ranks) {
      for (const std::string path : {"nvlink+host:6", "host"}) {
        if (path != "host" && collective == Collective::kBroadcast && ranks > 2) {
          continue;  // not cut equally over both paths
        }
        const DeviceChoice choice = chosen(collective, ranks, 256 * kMega, over(path));
        const auto plan = make_device_plan(choice, {.ranks = ranks}, both_paths());
        ASSERT_TRUE(plan.ok()) << plan.status().message();
        EXPECT_EQ((*plan)->strands.size(), path == "host" ? 1U : 2U);
        const auto proof = verify(**plan);
        EXPECT_TRUE(proof.ok()) << name(collective) << ": " << proof.status().message();
      }
    }
  }
}

TEST(DeviceChoice, MessagesShareByRequestAtAnySize) {
  const auto share = [](std::int64_t bytes, const CallRequest& request) {
    return chosen(Collective::kSendRecv, 2, bytes, request).host_share;
  };
  for (const std::int64_t bytes : {kMega, 64 * kMega, 256 * kMega, 1024 * kMega, 4096 * kMega}) {
    EXPECT_EQ(share(bytes, {}), 0);
    EXPECT_EQ(share(bytes, over("nvlink+host:8")), 8);
    EXPECT_EQ(share(bytes, over("host")), 100);
  }
  EXPECT_EQ(share(64 * kMega, over("nvlink+host")), 0);
  EXPECT_EQ(share(256 * kMega, over("nvlink+host")), 6);
  EXPECT_EQ(share(1024 * kMega, over("nvlink+host")), 8);
  const DeviceChoice packets =
      chosen(Collective::kSendRecv, 2, kMega, requesting("nvlink+host:40", "ll128"));
  EXPECT_EQ(packets.protocol, Protocol::kLl128);
  EXPECT_EQ(packets.host_share, 40);
  DeviceFacts facts = both_paths();
  facts.host_share = 12;
  EXPECT_EQ(chosen(Collective::kSendRecv, 2, 128 * kMega, {}, facts).host_share, 12);
  EXPECT_EQ(chosen(Collective::kSendRecv, 2, kMega, {}, facts).host_share, 0) << "by kernels";
}

TEST(DeviceChoice, MessagesOfTheOnlyTwoRanksFollowTheLoadByThemselves) {
  DeviceFacts facts = both_paths();
  facts.is_pair = true;
  const auto found = [&](std::int64_t bytes, const CallRequest& request) {
    return chosen(Collective::kSendRecv, 2, bytes, request, facts);
  };
  EXPECT_EQ(found(128 * kMega, {}), chosen(Collective::kSendRecv, 2, 128 * kMega, {}));
  EXPECT_EQ(found(256 * kMega, {}).host_share, 6);
  EXPECT_EQ(found(1024 * kMega, {}).host_share, 8);
  EXPECT_TRUE(found(256 * kMega, {}).dynamic_share);
  EXPECT_TRUE(found(256 * kMega, {}).shares_puts_alone);
  EXPECT_FALSE(found(256 * kMega, over("nvlink+host:dynamic")).shares_puts_alone);
  EXPECT_FALSE(found(256 * kMega, over("nvlink+host")).dynamic_share);
  EXPECT_EQ(found(64 * kMega, {}), chosen(Collective::kSendRecv, 2, 64 * kMega, {}));
  EXPECT_EQ(found(256 * kMega, over("nvlink")).host_share, 0);
  facts.sharing = DeviceSharing::kSome;
  EXPECT_EQ(found(256 * kMega, {}).host_share, 0);
  EXPECT_EQ(found(256 * kMega, over("nvlink+host")).host_share, 6);
  EXPECT_EQ(chosen(Collective::kBroadcast, 2, 256 * kMega, {}, facts).host_share, 0);
  facts.sharing = DeviceSharing::kNone;
  facts.host_share = 0;
  EXPECT_EQ(found(256 * kMega, {}).host_share, 0);
  EXPECT_FALSE(found(256 * kMega, {}).dynamic_share);
}

TEST(DeviceChoice, MessagesFollowTheLoadByRequestOrSetting) {
  DeviceFacts facts = both_paths();
  const DeviceChoice requested =
      chosen(Collective::kSendRecv, 2, kMega, over("nvlink+host:dynamic"));
  EXPECT_EQ(requested.engine, Engine::kSm);
  EXPECT_EQ(with_host_share(requested, 0), chosen(Collective::kSendRecv, 2, kMega, {}))
      << "what does not go through the host goes as all of it would";
  EXPECT_EQ(chosen(Collective::kSendRecv, 2, 128 * kMega, over("nvlink+host:dynamic")).protocol,
            Protocol::kDirectGet);
  EXPECT_EQ(requested.host_share, 6);
  EXPECT_TRUE(requested.dynamic_share);
  EXPECT_FALSE(with_host_share(requested, 6).dynamic_share);
  EXPECT_EQ(with_host_share(requested, 0),
            with_host_share(chosen(Collective::kSendRecv, 2, kMega, over("nvlink+host:30")), 0))
      << "ends that request different shares agree";
  facts.host_share = 12;
  EXPECT_EQ(chosen(Collective::kSendRecv, 2, kMega, over("nvlink+host:dynamic"), facts).host_share,
            6);
  facts.host_share = -1;
  facts.dynamic_share = true;
  const auto follows = [&](std::int64_t bytes, const CallRequest& request) {
    return chosen(Collective::kSendRecv, 2, bytes, request, facts).dynamic_share;
  };
  EXPECT_TRUE(follows(128 * kMega, {}));
  EXPECT_TRUE(follows(kMega, over("nvlink+host")));
  EXPECT_FALSE(follows(kMega, {})) << "by kernels";
  EXPECT_FALSE(follows(128 * kMega, over("nvlink")));
  EXPECT_FALSE(follows(128 * kMega, over("host")));
  EXPECT_FALSE(follows(128 * kMega, over("nvlink+host:8")));
}

// All their ranks have to know the share.
TEST(DeviceChoice, CollectivesDoNotFollowTheLoad) {
  DeviceFacts facts = both_paths();
  facts.dynamic_share = true;
  for (const char* const path : {"", "nvlink+host"}) {
    const DeviceChoice usual = chosen(Collective::kAllGather, 4, 64 * kMega, over(path), facts);
    EXPECT_EQ(usual, chosen(Collective::kAllGather, 4, 64 * kMega, over(path)));
  }
  const auto choice_of = [&](bool varying) {
    return choose_for_devices(Collective::kAllGather,
                              {.ranks = 4, .varying = varying},
                              64 * kMega,
                              over("nvlink+host:dynamic"),
                              both_paths());
  };
  const Status refused = choice_of(/*varying=*/false).status();
  EXPECT_TRUE(contains(refused.message(), "request nvlink+host"));
  EXPECT_TRUE(choice_of(/*varying=*/true).ok()) << "each block is a message of its own";
}

TEST(DeviceChoice, NothingFollowsALoadWhereOnePathIsNotThere) {
  DeviceFacts without_rings = both_paths();
  without_rings.host_slots = 0;
  DeviceFacts without_nvlink = both_paths();
  without_nvlink.reach = false;
  for (DeviceFacts facts : {without_rings, without_nvlink}) {
    const auto requested = choose_for_devices(
        Collective::kSendRecv, {.ranks = 2}, kMega, over("nvlink+host:dynamic"), facts);
    EXPECT_EQ(requested.status().code(), Code::kUnsupported);
    facts.dynamic_share = true;
    EXPECT_FALSE(chosen(Collective::kSendRecv, 2, 128 * kMega, {}, facts).dynamic_share);
  }
}

TEST(DeviceChoice, EveryPlanOfAMessageIsProved) {
  DeviceFacts facts = both_paths();
  facts.offers = true;
  for (const std::string protocol : {"", "direct_get", "direct_put", "ll128", "slots"}) {
    const DeviceChoice requested =
        chosen(Collective::kSendRecv, 2, kMega, requesting("nvlink+host:30", protocol), facts);
    for (const int share : {0, 1, 30, 99, 100}) {
      const DeviceChoice choice = with_host_share(requested, share);
      const auto plan = make_device_plan(choice, {.ranks = 2}, both_paths());
      ASSERT_TRUE(plan.ok()) << plan.status().message();
      EXPECT_EQ((*plan)->strands.size(), share % 100 == 0 ? 1U : 2U);
      const auto proof = verify(**plan);
      EXPECT_TRUE(proof.ok()) << proof.status().message();
    }
  }
}

TEST(DeviceChoice, PutsFromTheirSizeOn) {
  GpuProfile profile = usual_profile();
  profile.puts_from_bytes = 4 * kMega;
  const DeviceFacts facts{.offers = true, .profile = &profile};
  EXPECT_EQ(chosen(Collective::kAllReduce, 4, 4 * kMega, {}, facts).protocol, Protocol::kLl128);
  EXPECT_EQ(chosen(Collective::kAllGather, 4, kMega, {}, facts).protocol, Protocol::kDirectPut);
  EXPECT_EQ(chosen(Collective::kAllGather, 4, kMega / 2, {}, facts).protocol, Protocol::kLl128);
  EXPECT_EQ(chosen(Collective::kAllGather, 4, kMega + 4, {}, facts).protocol, Protocol::kLl128)
      << "blocks begin unaligned";
  EXPECT_EQ(chosen(Collective::kAllGather, 1, 4 * kMega, {}, facts).protocol, Protocol::kLl128);
  EXPECT_EQ(chosen(Collective::kBroadcast, 2, 4 * kMega + 4, {}, facts).protocol,
            Protocol::kDirectPut);
  EXPECT_NE(chosen(Collective::kBroadcast, 4, 4 * kMega, {}, facts).protocol, Protocol::kDirectPut);
  const DeviceFacts copies_alone{.copy_engines = true, .profile = &profile};
  EXPECT_EQ(chosen(Collective::kAllGather, 4, kMega, {}, copies_alone).protocol, Protocol::kLl128);
}

TEST(DeviceChoice, KernelsTakeTheWayOfPacketsWhereTheCallLeavesItOpen) {
  const DeviceFacts facts{.copy_engines = true};
  const auto expect = [&](Collective collective, std::int64_t bytes, const CallRequest& request) {
    const DeviceChoice choice = chosen(collective, 4, bytes, request, facts);
    const PacketWay way = packets_for(usual_profile(), collective, 4, bytes, request.algorithm);
    EXPECT_EQ(choice.algorithm->name, way.algorithm) << bytes;
    EXPECT_EQ(choice.protocol, way.protocol) << bytes;
  };
  for (const std::int64_t bytes : {kMega / 1024, kMega / 4, 16 * kMega, 64 * kMega}) {
    expect(Collective::kAllReduce, bytes, {});
    expect(Collective::kBroadcast, bytes, {});
    expect(Collective::kBroadcast, bytes, requesting("", "", "direct"));
  }
  // A request for a protocol leaves the algorithm open.
  const DeviceChoice requested =
      chosen(Collective::kBroadcast, 4, kMega / 4, requesting("", "slots"), facts);
  EXPECT_EQ(requested.algorithm->name, "direct");
  EXPECT_EQ(requested.protocol, Protocol::kSlots);
}

TEST(DeviceChoice, PutsAreProvedInPlaceButForAnAllToAll) {
  const DeviceFacts facts{.offers = true};
  const struct {
    Collective collective;
    bool in_place;
  } family[] = {{Collective::kAllGather, true},
                {Collective::kAllToAll, false},
                {Collective::kBroadcast, true},
                {Collective::kGather, true},
                {Collective::kScatter, true}};
  for (const auto& [collective, in_place] : family) {
    for (const int ranks : {2, 5, 16}) {
      const DeviceChoice choice =
          chosen(collective, ranks, kMega, requesting("", "direct_put"), facts);
      EXPECT_EQ(choice.algorithm->name, "direct") << "one hop, whatever is best of packets";
      const auto plan = make_device_plan(choice, {.ranks = ranks}, facts);
      ASSERT_TRUE(plan.ok()) << plan.status().message();
      const auto proof = verify(**plan);
      ASSERT_TRUE(proof.ok()) << proof.status().message();
      EXPECT_EQ(proof->in_place, in_place) << name(collective);
    }
  }
}

// Blocks may be stored where they belong, or go by packets, also where no GPU reaches another.
TEST(DeviceChoice, EveryPlanOfACallWhoseLengthsVaryIsProved) {
  for (const DeviceFacts& facts :
       {DeviceFacts{.offers = true}, DeviceFacts{}, DeviceFacts{.reach = false}}) {
    for (const Collective collective : {Collective::kAllGather,
                                        Collective::kAllToAll,
                                        Collective::kGather,
                                        Collective::kScatter}) {
      for (const int ranks : {1, 2, 5, 16}) {
        const Shape shape{.ranks = ranks, .root = ranks - 1, .varying = true};
        const Result<DeviceChoice> choice = choose_for_devices(collective, shape, 0, {}, facts);
        ASSERT_TRUE(choice.ok()) << choice.status().message();
        const auto plan = make_device_plan(*choice, shape, facts);
        ASSERT_TRUE(plan.ok()) << plan.status().message();
        const auto proof = verify(**plan);
        ASSERT_TRUE(proof.ok()) << name(collective) << ": " << proof.status().message();
        // Of an all_to_all_v nothing is in place, so nobody asks.
        EXPECT_TRUE(proof->in_place || collective == Collective::kAllToAll) << name(collective);
      }
    }
  }
}

TEST(DeviceChoice, PutsMessagesBetweenThoseOfPacketsAndThoseOfCopyEngines) {
  const auto protocol =
      [](std::int64_t bytes, const DeviceFacts& facts, const CallRequest& request) {
        return chosen(Collective::kSendRecv, 2, bytes, request, facts).protocol;
      };
  // Threads of one process have no copy engines.
  const DeviceFacts threads{.offers = true};
  EXPECT_EQ(protocol(usual_profile().message_puts_from_bytes - 1, threads, {}), Protocol::kLl128);
  EXPECT_EQ(protocol(usual_profile().message_puts_from_bytes, threads, {}), Protocol::kDirectPut);
  EXPECT_EQ(protocol(usual_profile().message_copies_from_bytes, threads, {}), Protocol::kDirectPut);
  EXPECT_EQ(protocol(8, threads, requesting("", "direct_put")), Protocol::kDirectPut);
  EXPECT_EQ(protocol(kMega, threads, requesting("", "slots")), Protocol::kSlots);
  const DeviceFacts processes{.copy_engines = true, .offers = true};
  EXPECT_EQ(protocol(usual_profile().message_copies_from_bytes - 1, processes, {}),
            Protocol::kDirectPut);
  EXPECT_EQ(protocol(usual_profile().message_copies_from_bytes, processes, {}),
            Protocol::kDirectGet);
  EXPECT_EQ(protocol(64 * kMega, processes, requesting("", "direct_put")), Protocol::kDirectPut);
}

TEST(DeviceChoice, PutsNoMessagesWhereNobodyReachesIntoBuffers) {
  EXPECT_EQ(chosen(Collective::kSendRecv, 2, kMega, {}, {.copy_engines = true}).protocol,
            Protocol::kLl128);
  const Result<DeviceChoice> refused = choose_for_devices(
      Collective::kSendRecv, {.ranks = 2}, kMega, requesting("", "direct_put"), {});
  EXPECT_EQ(refused.status().code(), Code::kUnsupported);
  EXPECT_TRUE(contains(refused.status().message(), "SENNIT_COPY_ENGINES=off"));
}

}  // namespace
}  // namespace sennit::tests
