#include "sim/flow_network.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

namespace sennit::sim {
namespace {

using Uses = std::vector<Use>;

TEST(FlowNetwork, FlowsOfOneLinkShareItEvenly) {
  FlowNetwork network({1.0});
  const Uses link{{.resource = 0}};
  const int first = network.start(0, link, 0, 1000);
  network.settle(0);
  EXPECT_EQ(network.rate(first), 1.0);
  EXPECT_EQ(network.next_end(), 1000);
  // 500 bytes are left of the first when the second joins; both then take 0.5.
  const int second = network.start(500, link, 0, 1000);
  network.settle(500);
  EXPECT_EQ(network.rate(first), 0.5);
  EXPECT_EQ(network.rate(second), 0.5);
  ASSERT_EQ(network.next_end(), 1500);
  const auto ended = network.take_ended(1500);
  EXPECT_EQ(std::vector<int>(ended.begin(), ended.end()), std::vector{first});
  network.settle(1500);
  EXPECT_EQ(network.next_end(), 2000);
  network.take_ended(2000);
  EXPECT_EQ(network.carried(0), 2000);
  EXPECT_EQ(network.next_end(), kNever);
}

// The textbook example: a long flow over two links, a short one on each. The narrow link decides
// for two of them, the third takes what they leave.
TEST(FlowNetwork, RatesAreMaxMinFair) {
  FlowNetwork network({1.0, 4.0});
  const Uses both{{.resource = 0}, {.resource = 1}};
  const Uses narrow{{.resource = 0}};
  const Uses wide{{.resource = 1}};
  const int a = network.start(0, both, 0, 1e6);
  const int b = network.start(0, narrow, 0, 1e6);
  const int c = network.start(0, wide, 0, 1e6);
  network.settle(0);
  EXPECT_DOUBLE_EQ(network.rate(a), 0.5);
  EXPECT_DOUBLE_EQ(network.rate(b), 0.5);
  EXPECT_DOUBLE_EQ(network.rate(c), 3.5);
}

TEST(FlowNetwork, LimitsAndWeightsCount) {
  FlowNetwork network({1.0});
  const Uses once{{.resource = 0}};
  const Uses twice{{.resource = 0, .weight = 2}};
  const int limited = network.start(0, once, 0.1, 1e6);
  const int heavy = network.start(0, twice, 0, 1e6);
  const int alone = network.start(0, {}, 0.25, 1000);
  network.settle(0);
  EXPECT_DOUBLE_EQ(network.rate(limited), 0.1);
  EXPECT_DOUBLE_EQ(network.rate(heavy), 0.45);
  EXPECT_DOUBLE_EQ(network.rate(alone), 0.25);
  EXPECT_EQ(network.next_end(), 4000);
}

// By flow: its route and its limit.
using Alive = std::map<int, std::pair<const Uses*, double>>;

// What max-min fair means: nothing is over capacity, and every flow has a limit or a full resource
// on which no other flow has more.
void expect_max_min_fair(const FlowNetwork& network,
                         const std::vector<double>& capacities,
                         const Alive& alive) {
  std::vector<double> load(capacities.size(), 0);
  std::vector<double> most(capacities.size(), 0);
  for (const auto& [flow, what] : alive) {
    for (const Use& use : *what.first) {
      const auto r = static_cast<std::size_t>(use.resource);
      load[r] += network.rate(flow);
      most[r] = std::max(most[r], network.rate(flow));
    }
  }
  for (std::size_t r = 0; r < load.size(); ++r) {
    ASSERT_LE(load[r], capacities[r] * (1 + 1e-9));
  }
  for (const auto& [flow, what] : alive) {
    const double rate = network.rate(flow);
    const bool stopped =
        (what.second > 0 && rate >= what.second * (1 - 1e-9)) ||
        std::ranges::any_of(*what.first, [&](const Use& use) {
          const auto r = static_cast<std::size_t>(use.resource);
          return load[r] >= capacities[r] * (1 - 1e-9) && rate >= most[r] * (1 - 1e-9);
        });
    ASSERT_TRUE(stopped) << "flow " << flow;
  }
}

// A few different resources, in their order.
template <typename Pick>
Uses random_route(int resources, Pick&& pick) {
  Uses route;
  const int length = 1 + pick(3);
  for (int hop = 0; hop < length; ++hop) {
    route.push_back({.resource = (pick(resources)), .weight = 1});
  }
  std::ranges::sort(route, {}, &Use::resource);
  const auto repeated = std::ranges::unique(route, {}, &Use::resource);
  route.erase(repeated.begin(), repeated.end());
  return route;
}

TEST(FlowNetwork, RandomFlowsAreMaxMinFairAtAllTimes) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](int n) { return std::uniform_int_distribution(0, n - 1)(random); };
    const int resources = 2 + pick(8);
    std::vector<double> capacities;
    for (int r = 0; r < resources; ++r) {
      capacities.push_back(1 + pick(5));
    }
    FlowNetwork network(capacities);
    std::vector<Uses> routes(30);
    for (Uses& route : routes) {
      route = random_route(resources, pick);
    }
    Alive alive;
    Time now = 0;
    for (int event = 0; event < 60; ++event) {
      if (event < 30) {
        const double limit = pick(3) == 0 ? 0.5 : 0;
        const Uses& route = routes[static_cast<std::size_t>(event)];
        alive[network.start(now, route, limit, 100 + pick(1000))] = {&route, limit};
      } else {
        const Time end = network.next_end();
        if (end == kNever) {
          break;
        }
        now = end;
        for (const int flow : network.take_ended(now)) {
          alive.erase(flow);
        }
      }
      network.settle(now);
      SCOPED_TRACE("seed " + std::to_string(seed) + " event " + std::to_string(event));
      expect_max_min_fair(network, capacities, alive);
    }
    EXPECT_TRUE(alive.empty());
  }
}

}  // namespace
}  // namespace sennit::sim
