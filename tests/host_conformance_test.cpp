// Every algorithm of the tables, run through the C ABI by ranks that are threads, against an
// oracle.
//
// The cases are the product of the tables. A run of the tests takes a sample of them, in an order
// that a seed decides: SENNIT_TEST_SEED repeats a failure or tries another sample. The whole:
//   SENNIT_TEST_CASES=all build/release/tests/sennit_conformance_tests
//   --gtest_filter='*Conformance*'
#include "base/env.hpp"
#include "base/testing/trials.hpp"
#include "conformance/conformance_case.hpp"
#include "conformance/oracle.hpp"
#include "conformance/rank_run.hpp"
#include "sennit/sennit.h"
#include "sennit/tools.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace sennit::tests {
namespace {

constexpr std::uint64_t kDefaultSeed = 20250817;
// Divided by the number of ranks: so many cases take about as long for each.
constexpr std::size_t kSample = trials(6000, 2000);

std::uint64_t seed_of_this_run() {
  const std::string text = env_text("SENNIT_TEST_SEED");
  return text.empty() ? kDefaultSeed : std::strtoull(text.c_str(), nullptr, 10);
}

// The cases of so many ranks that this run takes. Neighbours share slots, so the order is a part of
// the test.
std::vector<Case> cases_of_this_run(int ranks) {
  std::vector<Case> cases = all_cases();
  std::erase_if(cases, [&](const Case& c) { return c.ranks != ranks; });
  std::mt19937_64 random(seed_of_this_run());
  std::ranges::shuffle(cases, random);
  if (env_text("SENNIT_TEST_CASES") != "all") {
    cases.resize(std::min(cases.size(), kSample / static_cast<std::size_t>(ranks)));
  }
  return cases;
}

// The oracle of a case is made by the first rank that needs it, and freed by the last.
class SharedOracles {
 public:
  explicit SharedOracles(const std::vector<Case>& cases)
      : cases_(cases), slots_(std::make_unique<Slot[]>(cases.size())) {}

  const Oracle& get(std::size_t index) {
    Slot& slot = slots_[index];
    std::call_once(slot.made, [&] { slot.oracle = std::make_unique<const Oracle>(cases_[index]); });
    return *slot.oracle;
  }
  void release(std::size_t index) {
    Slot& slot = slots_[index];
    if (slot.released.fetch_add(1, std::memory_order_acq_rel) + 1 == cases_[index].ranks) {
      slot.oracle.reset();
    }
  }

 private:
  struct Slot {
    std::once_flag made;
    std::unique_ptr<const Oracle> oracle;
    std::atomic<int> released{0};
  };

  const std::vector<Case>& cases_;
  std::unique_ptr<Slot[]> slots_;
};

struct Tally {
  std::size_t right = 0;
  std::size_t refused = 0;
  std::string defect;               // the first
  std::vector<std::size_t> hashes;  // of the outputs, case by case
};

std::size_t largest_buffer(const std::vector<Case>& cases) {
  std::size_t largest = 0;
  for (const Case& c : cases) {
    const auto elements = static_cast<std::size_t>(c.count) * static_cast<std::size_t>(c.ranks);
    largest = std::max(largest, elements * size_bytes(c.dtype));
  }
  return largest;
}

bool is_refusal(sennit_status_t status) {
  return status == SENNIT_NOT_PROVED || status == SENNIT_UNSUPPORTED;
}

// Runs one case as one rank; the defect, if any.
std::string run_case(const Case& c, RankRun& run, const Oracle& oracle, Tally& tally) {
  const sennit_status_t status = run.run();
  if (must_be_refused(c)) {
    ++tally.refused;
    return is_refusal(status) ? std::string()
                              : fmt::format("not refused, but {}", sennit_status_name(status));
  }
  if (status != SENNIT_OK) {
    return sennit_last_error_message();
  }
  ++tally.right;
  return run.defect(oracle);
}

Tally run_rank(const std::vector<Case>& cases,
               int rank,
               const sennit_unique_id_t& id,
               SharedOracles& oracles) {
  Tally tally;
  tally.hashes.resize(cases.size());
  RankMemory memory(largest_buffer(cases));
  sennit_comm_t comm = nullptr;
  if (sennit_comm_init_rank(&comm, cases.front().ranks, &id, rank, nullptr) != SENNIT_OK) {
    tally.defect = sennit_last_error_message();
    return tally;
  }
  std::mt19937_64 places(seed_of_this_run() + static_cast<std::uint64_t>(rank));
  for (std::size_t i = 0; i < cases.size() && tally.defect.empty(); ++i) {
    RankRun run(cases[i], rank, comm, memory, places());
    if (const std::string wrong = run_case(cases[i], run, oracles.get(i), tally); !wrong.empty()) {
      tally.defect = fmt::format("{}: rank {}: {}", describe(cases[i]), rank, wrong);
    }
    tally.hashes[i] = run.output_hash();
    oracles.release(i);
  }
  sennit_comm_destroy(comm);
  return tally;
}

std::vector<Tally> run_ranks(const std::vector<Case>& cases) {
  sennit_unique_id_t id;
  EXPECT_EQ(sennit_unique_id_create(&id), SENNIT_OK);
  SharedOracles oracles(cases);
  std::vector<Tally> tallies(static_cast<std::size_t>(cases.front().ranks));
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < tallies.size(); ++rank) {
      threads.emplace_back(
          [&, rank] { tallies[rank] = run_rank(cases, static_cast<int>(rank), id, oracles); });
    }
  }
  return tallies;
}

// ---- The claims ---------------------------------------------------------------------------------

TEST(HostConformanceCases, AreTheProductOfTheTables) {
  EXPECT_EQ(all_cases().size(), product_of_the_tables());
}

class HostConformance : public testing::TestWithParam<int> {};

TEST_P(HostConformance, EveryAlgorithmComputesItsFormulaOrRefusesByName) {
  SCOPED_TRACE(fmt::format("SENNIT_TEST_SEED={}", seed_of_this_run()));
  RecordProperty("seed", std::to_string(seed_of_this_run()));
  const std::vector<Case> cases = cases_of_this_run(GetParam());
  const auto refused_count =
      static_cast<std::size_t>(std::ranges::count_if(cases, must_be_refused));
  const std::vector<Tally> tallies = run_ranks(cases);
  for (const Tally& tally : tallies) {
    EXPECT_EQ(tally.defect, "");
    EXPECT_EQ(tally.refused, refused_count);
    EXPECT_EQ(tally.right, cases.size() - refused_count);
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    for (const Tally& tally : tallies) {
      if (cases[i].collective() == Collective::kAllReduce && !must_be_refused(cases[i])) {
        ASSERT_EQ(tally.hashes[i], tallies.front().hashes[i])
            << describe(cases[i]) << ": ranks have different bits";
      }
    }
  }
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
