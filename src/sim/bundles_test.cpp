// The simulator on messages that may take one of two paths, and on choices that it does not know.
#include "algo/algorithm.hpp"
#include "sim/simulate.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sennit {
namespace {

constexpr std::int64_t kMessages = 64;
constexpr std::int64_t kTileBytes = 1 << 20;
constexpr std::string_view kMachine = R"(machine bundle Two GPUs, a wire and the host between them
source test chosen for round numbers
gpu 0..1
cpu 0
link gpu0 gpu1 nvlink 30 GB/s from test
link gpu0..1 cpu0 pcie 10 GB/s from test
)";

// `width` messages may begin at once.
Plan bundle(int width = 1) {
  const Algorithm& direct = **find_algorithm(Collective::kSendRecv, "direct");
  Strand strand = bind(std::make_shared<const Schedule>(*make_schedule(direct, {.ranks = 2})),
                       PathKind::kNvlink,
                       Protocol::kSlots,
                       4,
                       Engine::kStream);
  strand.tile_bytes = kTileBytes;
  strand.width = width;
  strand.channels.front().paths = {PathKind::kNvlink, PathKind::kHost};
  return {{strand}};
}

Result<Simulation> run(const Plan& plan, const PathPolicy& policy) {
  const auto machine = topology_from_text(kMachine, "test.machine");
  EXPECT_TRUE(machine.ok()) << machine.status().message();
  return simulate(
      plan, *machine, {.count = kMessages * kTileBytes, .element_bytes = 1, .policy = policy});
}

// How many of the messages went over the wire, and not through the host.
std::int64_t on_wire(std::string_view policy, int width = 1) {
  const auto parsed = parse_path_policy(policy);
  EXPECT_TRUE(parsed.ok());
  const auto result = run(bundle(width), *parsed);
  EXPECT_TRUE(result.ok()) << result.status().message();
  double bytes = 0;
  for (const ResourceUse& use : result->resources) {
    bytes += use.name.find("nvlink") != std::string::npos ? use.bytes : 0;
  }
  return static_cast<std::int64_t>(bytes) / kTileBytes;
}

TEST(Bundles, GoAsThePolicySays) {
  EXPECT_EQ(on_wire("fixed:0"), kMessages);
  EXPECT_EQ(on_wire("fixed:1"), 0);
  EXPECT_EQ(on_wire("round_robin"), kMessages / 2);
}

// The numbers of messages and channel are those that the policy is asked with when it runs.
TEST(Bundles, GoWhereTheSeedSends) {
  const PathPolicy policy{.rule = PathRule::kRandom, .seed = 7};
  std::int64_t expected = 0;
  const std::vector<PathView> views(2);
  for (std::int64_t m = 0; m < kMessages; ++m) {
    expected += pick(policy, {.number = static_cast<std::uint64_t>(m)}, views) == 0 ? 1 : 0;
  }
  EXPECT_EQ(on_wire("random:7"), expected);
  EXPECT_NE(on_wire("random:8"), expected);
}

TEST(Bundles, TheLeastLoadedPathIsTheFasterOneMoreOften) {
  const std::int64_t messages = on_wire("least_loaded", 4);
  EXPECT_GT(messages, kMessages / 2);
  EXPECT_LT(messages, kMessages);
}

TEST(Bundles, ChoicesOfReadersAreRefused) {
  Plan claimed = bundle();
  claimed.strands.front().channels.front().paths = {PathKind::kNvlink};
  claimed.strands.push_back(claimed.strands.front());
  claimed.division = Division::kClaimed;
  const auto by_grain = run(claimed, {});
  ASSERT_FALSE(by_grain.ok());
  EXPECT_EQ(by_grain.status().code(), Code::kUnsupported);
  EXPECT_NE(by_grain.status().message().find("claimed"), std::string::npos);

  Plan picked = bundle();
  picked.strands.front().channels.front().chooser = Chooser::kReader;
  const auto by_reader = run(picked, {});
  ASSERT_FALSE(by_reader.ok());
  EXPECT_NE(by_reader.status().message().find("reader picks"), std::string::npos);
}

}  // namespace
}  // namespace sennit
