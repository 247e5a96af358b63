// What GPU ranks choose where no GPU reaches another, or only those of a group.
#include "select/testing/chosen.hpp"

#include <algorithm>

namespace sennit::tests {
namespace {

TEST(HostChoice, TakesKernelsThroughTheHostWhereNvlinkIsNotThere) {
  const DeviceFacts facts = without_nvlink();
  for (const Collective collective : {Collective::kAllReduce,
                                      Collective::kReduceScatter,
                                      Collective::kReduce,
                                      Collective::kAllGather,
                                      Collective::kSendRecv}) {
    const int ranks = collective == Collective::kSendRecv ? 2 : 4;
    for (const CallRequest& request : {CallRequest(), over("host"), requesting("", "ll")}) {
      const DeviceChoice choice = chosen(collective, ranks, 8, request, facts);
      EXPECT_EQ(choice.protocol, Protocol::kLl);
      EXPECT_EQ(choice.host_share, 0);
    }
  }
}

// Plain packets: slots that kernels fill and empty.
TEST(HostChoice, TakesPlainPacketsForAllButSmallMessagesThroughTheHost) {
  const DeviceFacts facts = without_nvlink();
  const auto expect = [&](Collective collective, int ranks, std::int64_t bytes, Protocol protocol) {
    const DeviceChoice choice = chosen(collective, ranks, bytes, {}, facts);
    EXPECT_EQ(choice.protocol, protocol) << name(collective) << " of " << bytes;
    EXPECT_EQ(choice.host_share, 0) << name(collective) << " of " << bytes;
  };
  expect(Collective::kAllReduce, 4, usual_profile().host_ll_up_to_bytes, Protocol::kLl);
  for (const std::int64_t bytes :
       {4 * usual_profile().host_ll_up_to_bytes + 4, kMega, 256 * kMega}) {
    expect(Collective::kAllReduce, 4, bytes, Protocol::kSlots);
    expect(Collective::kReduceScatter, 4, bytes, Protocol::kSlots);
    expect(Collective::kReduce, 4, bytes, Protocol::kSlots);
  }
  expect(Collective::kAllReduce,
         4,
         2 * usual_profile().host_ll_up_to_bytes,
         Protocol::kLl);  // in two hops
  for (const auto& [collective, ranks] :
       {std::pair(Collective::kBroadcast, 4), std::pair(Collective::kSendRecv, 2)}) {
    expect(collective, ranks, usual_profile().host_ll_up_to_bytes, Protocol::kLl);
    expect(collective, ranks, usual_profile().host_ll_up_to_bytes + 1, Protocol::kSlots);
  }
  expect(Collective::kSendRecv,
         2,
         usual_profile().host_message_copies_from_bytes - 1,
         Protocol::kSlots);
  expect(Collective::kAllGather, 4, 256 * kMega, Protocol::kSlots);
  EXPECT_EQ(chosen(Collective::kReduce, 4, 8, requesting("", "slots"), facts).protocol,
            Protocol::kSlots);
  EXPECT_EQ(chosen(Collective::kBroadcast, 4, 8 * kMega, {}, facts).algorithm->name, "direct");
  EXPECT_EQ(chosen(Collective::kAllReduce, 4, 8 * kMega, {}, facts).algorithm->name, "two_shot");
  EXPECT_EQ(chosen(Collective::kReduce, 4, 8 * kMega, {}, facts).algorithm->name, "scatter_gather");
  EXPECT_EQ(chosen(Collective::kReduce, 4, usual_profile().host_ll_up_to_bytes, {}, facts)
                .algorithm->name,
            "direct");
}

TEST(HostChoice, LeavesLargeMovesThroughTheHostToCopyEngines) {
  DeviceFacts facts = without_nvlink();
  const auto row = std::ranges::find(
      usual_profile().host_copies, Collective::kAllToAll, &GpuProfile::HostCopies::collective);
  ASSERT_NE(row, usual_profile().host_copies.end());
  const int ranks = row->up_to_ranks;
  const std::int64_t part = row->from_bytes / ranks;
  const auto share = [&](const CallRequest& request, std::int64_t bytes) {
    return chosen(Collective::kAllToAll, ranks, bytes, request, facts).host_share;
  };
  EXPECT_EQ(share({}, part), 100);
  EXPECT_EQ(share({}, part - 1), 0);
  EXPECT_EQ(share(requesting("", "ll"), part), 0);
  EXPECT_EQ(share(requesting("", "slots"), 8), 100);
  EXPECT_EQ(chosen(Collective::kAllToAll, ranks + 1, part, {}, facts).host_share, 0);
  const auto gathered = [&](const CallRequest& request) {
    return chosen(Collective::kAllGather, 4, part, request, facts).host_share;
  };
  EXPECT_EQ(gathered({}), 0) << "by kernels";
  EXPECT_EQ(gathered(requesting("", "slots")), 100);
  EXPECT_EQ(gathered(requesting("", "slots", "direct")), 0) << "by kernels";
  EXPECT_EQ(chosen(Collective::kAllToAll, 4, 8, requesting("host", "slots"), facts).host_share,
            100);
  EXPECT_EQ(chosen(Collective::kAllGather, 4, 8, requesting("", "", "hub"), facts).protocol,
            Protocol::kSlots);
  const std::int64_t message = usual_profile().host_message_copies_from_bytes;
  EXPECT_EQ(chosen(Collective::kSendRecv, 2, message, {}, facts).host_share, 100);
  EXPECT_EQ(chosen(Collective::kSendRecv, 2, message - 1, {}, facts).host_share, 0);
  EXPECT_EQ(chosen(Collective::kSendRecv, 2, 8, requesting("", "slots"), facts).host_share, 100);
  facts.copy_engines = false;
  EXPECT_EQ(share({}, part), 0);
  EXPECT_EQ(share(requesting("", "slots"), part), 0);
  EXPECT_TRUE(chosen(Collective::kAllGather, 4, part, requesting("", "", "hub"), facts).by_steps);
  EXPECT_EQ(chosen(Collective::kSendRecv, 2, message, {}, facts).host_share, 0);
}

TEST(HostChoice, RefusesByNameWhatNeedsNvlinkWhereItIsNotThere) {
  const DeviceFacts facts = without_nvlink();
  for (const std::string path : {"nvlink", "nvlink+host", "nvlink+host:7"}) {
    EXPECT_TRUE(contains(refusal(Collective::kAllGather, over(path), facts), "it is a test"));
  }
  for (const std::string protocol : {"ll128", "direct_get", "direct_put"}) {
    const std::string text = refusal(Collective::kAllGather, requesting("", protocol), facts);
    EXPECT_TRUE(contains(text, "ll and slots") && contains(text, protocol)) << text;
  }
}

TEST(HostChoice, TakesTheWiresOfGroupsByItselfWhereTheyPay) {
  DeviceFacts facts = without_nvlink();
  facts.groups = {{0, 1}, {2, 3}};
  const auto grouped = [&](Collective collective, std::int64_t bytes, const CallRequest& request) {
    const auto choice =
        choose_for_devices(collective, {.ranks = 4, .groups = facts.groups}, bytes, request, facts);
    return choice.ok() && choice->algorithm->name == "hierarchical_sliced" && choice->by_steps;
  };
  EXPECT_TRUE(grouped(Collective::kAllReduce, usual_profile().groups_from_bytes, {}));
  EXPECT_TRUE(grouped(Collective::kAllReduce, 1024 * kMega, {}));
  EXPECT_FALSE(grouped(Collective::kAllReduce, usual_profile().groups_from_bytes - 1, {}));
  EXPECT_FALSE(grouped(Collective::kReduceScatter, kMega, {})) << "it has no such algorithm";
  EXPECT_FALSE(grouped(Collective::kAllReduce, kMega, requesting("", "slots")));
  EXPECT_FALSE(grouped(Collective::kAllReduce, kMega, over("host")));
  CallRequest ordered;
  ordered.rank_order = true;
  EXPECT_FALSE(grouped(Collective::kAllReduce, kMega, ordered));
  facts.reproducible = true;
  EXPECT_FALSE(grouped(Collective::kAllReduce, kMega, {}));
  facts.reproducible = false;
  facts.groups.clear();
  EXPECT_FALSE(grouped(Collective::kAllReduce, kMega, {})) << "there are none";
}

// Every leader of a slice sends it to all others, so many groups would burden the host more than
// packets do.
TEST(HostChoice, TakesTheWiresOfFewGroupsAlone) {
  const auto grouped = [](const std::vector<int>& sizes) {
    DeviceFacts facts = without_nvlink();
    int ranks = 0;
    for (const int size : sizes) {
      std::vector<int>& members = facts.groups.emplace_back();
      for (int i = 0; i < size; ++i) {
        members.push_back(ranks++);
      }
    }
    const auto choice = choose_for_devices(
        Collective::kAllReduce, {.ranks = ranks, .groups = facts.groups}, 64 * kMega, {}, facts);
    EXPECT_TRUE(choice.ok()) << choice.status().message();
    return choice.ok() && choice->by_steps;
  };
  EXPECT_TRUE(grouped({2, 2}));
  EXPECT_TRUE(grouped({3, 1}));
  EXPECT_TRUE(grouped({8, 8}));
  EXPECT_TRUE(grouped({3, 3, 2}));
  EXPECT_TRUE(grouped({4, 4, 4, 4}));
  EXPECT_FALSE(grouped({2, 1}));
  EXPECT_FALSE(grouped({2, 1, 1}));
  EXPECT_FALSE(grouped({2, 2, 2}));
  EXPECT_FALSE(grouped({2, 2, 2, 2}));
  EXPECT_FALSE(grouped({2, 2, 2, 2, 2, 2, 2, 2}));
}

}  // namespace
}  // namespace sennit::tests
