#include "select/device_paths.hpp"

#include "select/testing/chosen.hpp"
#include "verify/verify.hpp"

#include <algorithm>
#include <string>

namespace sennit {
namespace {

using tests::both_paths;
using tests::chosen;
using tests::contains;
using tests::over;
using tests::refusal;
using tests::requesting;

DeviceFacts sharing(std::vector<int> gpus, DeviceSharing how) {
  DeviceFacts facts = both_paths();
  facts.gpus = std::move(gpus);
  facts.sharing = how;
  return facts;
}

Plan plan_of(const DeviceChoice& choice, int ranks, const DeviceFacts& facts) {
  const auto plan = make_device_plan(choice, {.ranks = ranks}, facts);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return **plan;
}

std::int64_t channels_over(const Plan& plan, PathKind path) {
  return std::ranges::count(
      plan.strands.front().channels, std::vector<Path>{path}, &ChannelBinding::paths);
}

TEST(DevicePaths, RanksOfOneGpuHavePathDevice) {
  const DeviceFacts shared = sharing({0, 0, 0, 0}, DeviceSharing::kAtOnce);
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kAllGather, Collective::kAllToAll}) {
    for (const std::int64_t bytes : {std::int64_t{256}, 16 * kMega, 512 * kMega}) {
      const DeviceChoice choice = chosen(collective, 4, bytes, {}, shared);
      const Plan plan = plan_of(choice, 4, shared);
      EXPECT_EQ(channels_over(plan, PathKind::kNvlink), 0);
      EXPECT_EQ(channels_over(plan, PathKind::kDevice), std::ssize(plan.strands.front().channels));
      EXPECT_TRUE(verify(plan).ok());
      EXPECT_NE(plan_hash(plan), plan_hash(plan_of(choice, 4, both_paths())));
    }
  }
}

TEST(DevicePaths, OfTwoGpusWithTwoRanksEachBothAreThere) {
  const DeviceFacts mixed = sharing({0, 0, 2, 2}, DeviceSharing::kSome);
  const DeviceChoice choice = chosen(Collective::kAllGather, 4, 256, {}, mixed);
  const Plan plan = plan_of(choice, 4, mixed);
  EXPECT_EQ(channels_over(plan, PathKind::kDevice), 4);
  EXPECT_EQ(channels_over(plan, PathKind::kNvlink), 8);
  // Requests name the path between GPUs.
  EXPECT_EQ(plan_of(chosen(Collective::kAllGather, 4, 256, over("nvlink"), mixed), 4, mixed), plan);
  EXPECT_TRUE(contains(refusal(Collective::kAllGather, over("device"), mixed),
                       "do not all share one; request nvlink"));
}

// Within the GPUs, between them and within them again.
TEST(DevicePaths, AHierarchyHasTheRanksOfAGpuAsAGroup) {
  const DeviceFacts mixed = sharing({0, 0, 2, 2}, DeviceSharing::kSome);
  const Shape shape{.ranks = 4, .groups = groups_of(mixed)};
  EXPECT_EQ(shape.groups, (std::vector<std::vector<int>>{{0, 1}, {2, 3}}));
  for (const char* const algorithm : {"hierarchical", "hierarchical_sliced"}) {
    const auto choice = choose_for_devices(
        Collective::kAllReduce, shape, kMega, requesting("", "", algorithm), mixed);
    ASSERT_TRUE(choice.ok()) << choice.status().message();
    const auto plan = make_device_plan(*choice, shape, mixed);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_GT(channels_over(**plan, PathKind::kDevice), 0);
    EXPECT_GT(channels_over(**plan, PathKind::kNvlink), 0);
    EXPECT_EQ(channels_over(**plan, PathKind::kHost), 0);
    EXPECT_TRUE(verify(**plan).ok());
  }
  EXPECT_TRUE(groups_of(both_paths()).empty());
  EXPECT_TRUE(groups_of(sharing({0, 0, 0, 0}, DeviceSharing::kAtOnce)).empty());
}

TEST(DevicePaths, AMessageHasThatOfItsEnds) {
  const DeviceFacts mixed = sharing({0, 0, 2, 2}, DeviceSharing::kSome);
  for (const auto& [to, path] :
       {std::pair(1, PathKind::kDevice), std::pair(2, PathKind::kNvlink)}) {
    const DeviceChoice choice = chosen(Collective::kSendRecv, 2, kMega, {}, mixed);
    const Plan plan = plan_of(choice, 2, facts_of_message(mixed, 0, to));
    EXPECT_EQ(channels_over(plan, path), std::ssize(plan.strands.front().channels)) << to;
  }
}

TEST(DevicePaths, OneRankOrOneGpuEachIsNvlink) {
  EXPECT_EQ(direct_path(both_paths()), PathKind::kNvlink);
  EXPECT_EQ(direct_path(sharing({0}, DeviceSharing::kNone)), PathKind::kNvlink);
  EXPECT_EQ(direct_path(sharing({0, 0}, DeviceSharing::kInTurn)), PathKind::kDevice);
}

TEST(DevicePaths, RequestsNameThePathThatIsThere) {
  const DeviceFacts shared = sharing({0, 0, 0, 0}, DeviceSharing::kAtOnce);
  EXPECT_EQ(chosen(Collective::kAllGather, 4, 100, over("device+host:7"), shared).host_share, 7);
  EXPECT_EQ(chosen(Collective::kAllGather, 4, 100, over("device"), shared).host_share, 0);
  EXPECT_TRUE(contains(refusal(Collective::kAllGather, over("nvlink"), shared),
                       "share one GPU; request "
                       "device"));
  for (const std::string wrong :
       {"cma", "device+nvlink", "device+host+host", "host:8", "device:8", "device+", "+host"}) {
    EXPECT_TRUE(contains(refusal(Collective::kAllGather, over(wrong), shared),
                         "there are: nvlink, device (of ranks that share one GPU), host"))
        << wrong;
  }
  EXPECT_TRUE(contains(refusal(Collective::kAllGather, over("device+host:x"), shared), "percent"));
  EXPECT_TRUE(contains(refusal(Collective::kAllGather, over("device+host:dynamic"), shared),
                       "request device+host or device+host:8"));
}

// Who copies the contributions to a sum depends on what a copy of another rank costs.
TEST(DevicePaths, ASharedBufferIsFilledByAllAtOnceOrByItsOwner) {
  for (const auto& [sharing_so, protocol] :
       {std::pair(DeviceSharing::kAtOnce, Protocol::kSlots),
        std::pair(DeviceSharing::kInTurn, Protocol::kDirectGet)}) {
    const DeviceFacts facts = sharing({0, 0, 0, 0}, sharing_so);
    const DeviceChoice choice = chosen(
        Collective::kAllReduce, 4, kMega, requesting("device+host:34", "", "shared_buffer"), facts);
    EXPECT_EQ(choice.engine, Engine::kStream);
    EXPECT_FALSE(choice.by_leader);
    const Plan plan = plan_of(choice, 4, facts);
    EXPECT_EQ(channels_over(plan, PathKind::kHost), 2);
    EXPECT_EQ(channels_over(plan, PathKind::kDevice), 4);
    EXPECT_EQ(std::ranges::count_if(plan.strands.front().channels,
                                    [&](const ChannelBinding& binding) {
                                      return binding.paths.front() == PathKind::kDevice &&
                                             binding.protocol == protocol;
                                    }),
              2);
    const Result<Proof> proof = verify(plan);
    ASSERT_TRUE(proof.ok()) << proof.status().message();
    EXPECT_TRUE(proof->in_place);
  }
}

// By a row of the profile, for its ranks and from its size on.
TEST(DevicePaths, ASharedBufferTakesItsShareFromTheProfile) {
  GpuProfile profile = *both_paths().profile;
  profile.host_shares = {{Collective::kAllReduce, 4, 64 * kKilo, 0},
                         {Collective::kAllReduce, 4, 0, 34},
                         {Collective::kAllReduce, 8, 0, 57}};
  DeviceFacts facts = sharing({0, 0, 0, 0}, DeviceSharing::kAtOnce);
  facts.profile = &profile;
  const auto share = [&](int ranks, std::int64_t bytes, std::string path) {
    facts.gpus.assign(static_cast<std::size_t>(ranks), 0);
    return chosen(Collective::kAllReduce,
                  ranks,
                  bytes,
                  requesting(std::move(path), "copy_engines", "shared_buffer"),
                  facts)
        .host_share;
  };
  EXPECT_EQ(share(4, 4096, "device+host"), 34);
  EXPECT_EQ(share(4, 64 * kKilo, "device+host"), 0);
  EXPECT_EQ(share(8, 64 * kKilo, "device+host"), 57);
  EXPECT_EQ(share(4, 4096, "device+host:67"), 67);
  EXPECT_EQ(share(4, 4096, "device"), 0);
  EXPECT_EQ(share(4, 4096, ""), 0);
}

}  // namespace
}  // namespace sennit
