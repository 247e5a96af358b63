// Every algorithm of the tables, run through the C ABI by ranks that are threads, against an
// oracle.
//
// The cases are the product of the tables. A run of the tests takes a sample of them, in an order
// that a seed decides: SENNIT_TEST_SEED repeats a failure or tries another sample. The whole:
//   SENNIT_TEST_CASES=all build/release/tests/sennit_conformance_tests
//   --gtest_filter='*Conformance*'
#include "base/testing/trials.hpp"
#include "conformance/case_series.hpp"
#include "conformance/conformance_case.hpp"
#include "conformance/oracle.hpp"
#include "conformance/rank_run.hpp"
#include "sennit/sennit.h"
#include "sennit/tools.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace sennit::tests {
namespace {

// Divided by the number of ranks: so many cases take about as long for each.
constexpr std::size_t kSample = trials(6000, 2000);

// The cases of so many ranks that this run takes.
std::vector<Case> cases_of_this_run(int ranks) {
  std::vector<Case> cases = all_cases();
  std::erase_if(cases, [&](const Case& c) { return c.ranks != ranks; });
  return take_sample(std::move(cases), kSample / static_cast<std::size_t>(ranks));
}

// ---- The claims ---------------------------------------------------------------------------------

TEST(HostConformanceCases, AreTheProductOfTheTables) {
  EXPECT_EQ(all_cases().size(), product_of_the_tables());
}

class HostConformance : public testing::TestWithParam<int> {};

TEST_P(HostConformance, EveryAlgorithmComputesItsFormulaOrRefusesByName) {
  SCOPED_TRACE(fmt::format("SENNIT_TEST_SEED={}", series_seed()));
  RecordProperty("seed", std::to_string(series_seed()));
  const std::vector<Case> cases = cases_of_this_run(GetParam());
  expect_right(cases, run_series_as_threads(cases));
}

INSTANTIATE_TEST_SUITE_P(Ranks, HostConformance, testing::ValuesIn(kRankCounts));

bool was_carried_directly(sennit_comm_t comm) {
  char* answer = nullptr;
  const bool has_plan = sennit_tool_last_plan(comm, &answer) == SENNIT_OK;
  const bool direct = has_plan && std::string_view(answer).find("direct") != std::string_view::npos;
  sennit_tool_free(answer);
  return direct;
}

TEST(HostConformanceCases, WhatIsAskedToBeDirectIsCarriedDirectly) {
  std::vector<Case> cases;
  std::set<const Algorithm*> seen;
  for (const Case& c : all_cases()) {
    if (c.ranks == 4 && c.direct && c.count > 0 && !must_be_refused(c) &&
        seen.insert(c.algorithm).second) {
      cases.push_back(c);
    }
  }
  ASSERT_GE(cases.size(), 20U);
  sennit_unique_id_t id;
  ASSERT_EQ(sennit_unique_id_create(&id), SENNIT_OK);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      sennit_comm_t comm = nullptr;
      ASSERT_EQ(sennit_comm_init_rank(&comm, 4, &id, rank, nullptr), SENNIT_OK);
      RankMemory memory(largest_buffer(cases));
      for (const Case& c : cases) {
        RankRun run(c, rank, comm, memory, 0);
        EXPECT_EQ(run.run(), SENNIT_OK) << describe(c);
        EXPECT_EQ(run.defect(Oracle(c)), "") << describe(c);
        EXPECT_TRUE(was_carried_directly(comm)) << describe(c);
      }
      EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
    });
  }
}

}  // namespace
}  // namespace sennit::tests
