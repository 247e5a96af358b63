// Every algorithm of the tables between processes on several nodes, through the real UCX, against
// the oracle that judges ranks of one node. rails_conformance_test.cpp has more cases, over a fake.
#include "rails_fixture.hpp"
#include "rank_processes.hpp"

#include "conformance/case_series.hpp"
#include "conformance/conformance_case.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace sennit::tests {
namespace {

// Of each algorithm and protocol.
constexpr std::size_t kSample = 12;
// With SENNIT_TEST_CASES=all too.
constexpr double kLongestS = 600;

class RailsOfProcesses : public RailsFixture, public testing::WithParamInterface<const char*> {};

Report run_cases(const std::vector<Case>& cases, const std::string& name, int rank) {
  const sennit_comm_t comm = join_on(name, cases.front().nodes, rank);
  SharedOracles oracles(cases, 1);
  const Tally tally = run_series(cases, rank, comm, oracles);
  Report report{.status = tally.defect.empty() ? sennit_comm_destroy(comm) : SENNIT_INTERNAL_ERROR,
                .value = static_cast<double>(tally.right)};
  std::snprintf(report.message, sizeof(report.message), "%s", tally.defect.c_str());
  return report;
}

TEST_P(RailsOfProcesses, EveryAlgorithmComputesItsFormulaOrRefusesByName) {
  SCOPED_TRACE("SENNIT_TEST_SEED=" + std::to_string(series_seed()));
  const std::vector<Case> cases = take_of_each(all_cases_on(GetParam()), kSample);
  const auto refused = std::ranges::count_if(cases, must_be_refused);
  const std::string name = fresh_name();
  RankProcesses ranks(
      cases.front().ranks, [&](int rank) { return run_cases(cases, name, rank); }, kLongestS);
  for (const auto& report : ranks.reports()) {
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_OK) << report->message;
    EXPECT_EQ(report->value, static_cast<double>(std::ssize(cases) - refused));
  }
}

INSTANTIATE_TEST_SUITE_P(Nodes, RailsOfProcesses, testing::Values("aabb", "aaab", "abc"));

}  // namespace
}  // namespace sennit::tests
