// Several cards for the messages of one pair of ranks: who gets them, and what the simulator says.
#include "machine/topology.hpp"
#include "select/machine_plan.hpp"
#include "select/select.hpp"
#include "sim/simulate.hpp"
#include "verify/verify.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace sennit {
namespace {

constexpr std::int64_t kLarge = 16 << 20;

// One rank and three cards a node, of 0.1 GB/s each.
const std::string kNodes =
    "machine nodes Nodes of one rank and three cards\n"
    "source test made up for these tests\n"
    "gpu 0 memory 16 GB/s from test\n"
    "cpu 0 memory 16 GB/s from test\n"
    "nic 0..2\n"
    "fabric wire\n"
    "link gpu0 cpu0 pcie 8 GB/s from test\n"
    "link nic0..2 cpu0 pcie 8 GB/s from test\n"
    "link nic0..2 wire net 0.1 GB/s from test\n"
    "path rail start 20 us from test\n";

Result<Simulation> simulated(const std::string& paths) {
  SENNIT_ASSIGN_OR_RETURN(const Topology machine, topology_from_text(kNodes, "nodes"));
  SENNIT_ASSIGN_OR_RETURN(const std::vector<Path> path_list, parse_path_list(paths));
  SENNIT_ASSIGN_OR_RETURN(
      const Plan plan,
      plan_on_machine({.algorithm = *find_algorithm(Collective::kSendRecv, "direct"),
                       .shape = {.ranks = 2},
                       .bytes = kLarge,
                       .paths = path_list,
                       .tile_bytes = 64 << 10},
                      machine));
  SENNIT_RETURN_IF_ERROR(verify(plan).status());
  return simulate(plan, machine, {.count = kLarge, .element_bytes = 1});
}

// Within 4 percent.
bool is_about(double value, double expected) {
  return std::abs(value - expected) <= 0.04 * expected;
}

double bytes_on(const Simulation& run, const std::string& wire) {
  const auto found = std::ranges::find_if(
      run.resources, [&](const ResourceUse& use) { return use.name.starts_with(wire); });
  return found == run.resources.end() ? 0 : found->bytes;
}

TEST(RailBundles, CardsOfABundleShareAMessage) {
  const auto one = simulated("rail/2");
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_TRUE(is_about(one->seconds, kLarge / 1e8)) << one->seconds;
  EXPECT_EQ(bytes_on(*one, "node0 nic2>wire"), kLarge);
  EXPECT_EQ(bytes_on(*one, "node0 nic0>wire"), 0);
  const auto two = simulated("rail/0+rail/2");
  ASSERT_TRUE(two.ok()) << two.status().message();
  EXPECT_TRUE(is_about(two->seconds, one->seconds / 2)) << two->seconds;
  for (const char* const wire : {"node0 nic0>wire", "node0 nic2>wire"}) {
    EXPECT_TRUE(is_about(bytes_on(*two, wire), kLarge / 2.0)) << wire;
  }
  const auto three = simulated("rail/0+rail/1+rail/2");
  ASSERT_TRUE(three.ok()) << three.status().message();
  EXPECT_TRUE(is_about(three->seconds, one->seconds / 3)) << three->seconds;
}

TEST(RailBundles, ACardThatIsNotThereIsRefused) {
  for (const char* const paths : {"rail/3", "rail/0+rail/3"}) {
    EXPECT_EQ(simulated(paths).status().code(), Code::kInvalidArgument) << paths;
  }
}

Result<Choice> chosen(std::int64_t bytes, const HostFacts& facts, const std::string& path = "") {
  CallRequest request;
  request.path = path;
  return choose(Collective::kAllGather, {.ranks = 2, .groups = {{0}, {1}}}, bytes, request, facts);
}

TEST(RailBundles, LargeCallsSpreadOverCardsThatNobodyElseHas) {
  const HostFacts spare{.cards = 4, .cards_a_rank = 2};
  const HostFacts none{.cards = 4};
  EXPECT_TRUE(chosen(1 << 20, spare)->spreads);
  EXPECT_FALSE(chosen(1 << 10, spare)->spreads);
  EXPECT_FALSE(chosen(1 << 20, none)->spreads);
  EXPECT_FALSE(chosen(1 << 20, spare, "rail/0")->spreads);
  EXPECT_FALSE(chosen(1 << 20, spare, "shm")->spreads);
}

TEST(RailBundles, RequestsNameCardsThatAreThere) {
  const HostFacts facts{.cards = 3};
  EXPECT_EQ(chosen(8, facts, "rail/2+rail/0")->cards, (std::vector{2, 0}));
  EXPECT_EQ(chosen(8, facts, "rail/3").status().code(), Code::kUnsupported);
  EXPECT_EQ(chosen(8, HostFacts(), "rail/0").status().message(),
            "there is no rail/0: all ranks are on one node");
  for (const char* const path : {"rail", "rail/0+rail/0", "rail/0+shm", "rail/0+", "rail/x"}) {
    EXPECT_EQ(chosen(8, facts, path).status().code(), Code::kInvalidArgument) << path;
  }
}

}  // namespace
}  // namespace sennit
