// Every algorithm of the tables between ranks on several nodes, against the oracle that judges
// ranks of one node. Ranks are threads, and the cards of their nodes are a FakeUcx, which delivers
// in any order; rails_processes_test.cpp has real ones.
#include "node_groups.hpp"

#include "base/testing/trials.hpp"
#include "conformance/case_series.hpp"
#include "conformance/conformance_case.hpp"
#include "drivers/ucx/testing/fake_ucx.hpp"
#include "drivers/ucx/testing/given_ucx.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <string>
#include <vector>

namespace sennit::tests {
namespace {

// Of each algorithm and protocol.
constexpr std::size_t kSample = trials(12, 3);

// The nodes are two and more, equally large or not, and with ranks in and out of their order.
class RailsConformance : public testing::TestWithParam<const char*> {
 protected:
  // Before any rank is there: threads read the environment.
  void SetUp() override {
    ::setenv("SENNIT_ROOT", "127.0.0.1", 1);
    ::setenv("SENNIT_RAILS", "rail0,rail1", 1);
  }
  void TearDown() override {
    ::unsetenv("SENNIT_ROOT");
    ::unsetenv("SENNIT_RAILS");
  }

  void run(const FakeUcx::Options& options) const {
    SCOPED_TRACE("SENNIT_TEST_SEED=" + std::to_string(series_seed()));
    FakeUcx ucx(options);
    const GivenUcx given(ucx);
    const std::vector<Case> cases = take_of_each(all_cases_on(GetParam()), kSample);
    expect_right(cases, run_series_as_threads(cases));
    EXPECT_GT(ucx.messages(), cases.size());
  }
};

TEST_P(RailsConformance, EveryAlgorithmComputesItsFormulaOrRefusesByName) {
  run({.seed = series_seed()});
}

// As TCP is: a card holds nothing back of what it says has left.
class RailsConformanceInOrder : public RailsConformance {};

TEST_P(RailsConformanceInOrder, EveryAlgorithmComputesItsFormulaOrRefusesByName) {
  run({.seed = series_seed() + 1, .keeps_order = true, .ends_when_left = true});
}

// So the tests above try all there is.
TEST_P(RailsConformance, SlotsCarryEveryAlgorithmThatTakesTheShape) {
  std::set<const Algorithm*> seen;
  for (const Case& c : all_cases_on(GetParam())) {
    if (c.direct || !seen.insert(c.algorithm).second) {
      continue;
    }
    const bool is_pair = c.collective() == Collective::kSendRecv;
    Shape shape{.ranks = is_pair ? 2 : c.ranks, .root = c.root};
    if (!is_pair) {
      shape.groups = groups_of(c.nodes);
    }
    EXPECT_EQ(must_be_refused(c), !refusal_of(*c.algorithm, shape).empty()) << describe(c);
  }
  for (const Collective collective : kCollectives) {
    for (const Algorithm& algorithm : algorithms(collective)) {
      EXPECT_TRUE(seen.contains(&algorithm)) << algorithm.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Nodes,
                         RailsConformance,
                         testing::Values("ab", "aabb", "aaab", "abc", "abab", "aabbcc"));
INSTANTIATE_TEST_SUITE_P(Nodes, RailsConformanceInOrder, testing::Values("aabb", "aaab", "abc"));

}  // namespace
}  // namespace sennit::tests
