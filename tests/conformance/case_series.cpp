#include "case_series.hpp"

#include "rank_run.hpp"

#include "base/env.hpp"
#include "world/nodes/nodes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>
#include <utility>

namespace sennit::tests {
namespace {

constexpr std::uint64_t kDefaultSeed = 20250817;

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

// As a thread.
Tally join_and_run(const std::vector<Case>& cases,
                   int rank,
                   const sennit_unique_id_t& id,
                   SharedOracles& oracles) {
  Tally tally;
  const Case& first = cases.front();
  set_node_of_this_thread(std::string(first.nodes.substr(
      first.nodes.empty() ? 0 : static_cast<std::size_t>(rank), first.nodes.empty() ? 0 : 1)));
  sennit_comm_t comm = nullptr;
  if (sennit_comm_init_rank(&comm, first.ranks, &id, rank, nullptr) != SENNIT_OK) {
    tally.defect = sennit_last_error_message();
    tally.hashes.resize(cases.size());
    return tally;
  }
  tally = run_series(cases, rank, comm, oracles);
  sennit_comm_destroy(comm);
  return tally;
}

}  // namespace

std::uint64_t series_seed() {
  const std::string text = env_text("SENNIT_TEST_SEED");
  return text.empty() ? kDefaultSeed : std::strtoull(text.c_str(), nullptr, 10);
}

std::vector<Case> take_sample(std::vector<Case> cases, std::size_t count) {
  std::mt19937_64 random(series_seed());
  std::ranges::shuffle(cases, random);
  if (env_text("SENNIT_TEST_CASES") != "all") {
    cases.resize(std::min(cases.size(), count));
  }
  return cases;
}

std::vector<Case> take_of_each(std::vector<Case> cases, std::size_t count) {
  const std::size_t all = cases.size();
  cases = take_sample(std::move(cases), all);
  if (env_text("SENNIT_TEST_CASES") != "all") {
    std::map<std::pair<const Algorithm*, bool>, std::size_t> taken;
    std::erase_if(cases, [&](const Case& c) { return ++taken[{c.algorithm, c.direct}] > count; });
  }
  return cases;
}

const Oracle& SharedOracles::get(std::size_t index) {
  Slot& slot = slots_[index];
  std::call_once(slot.made, [&] { slot.oracle = std::make_unique<const Oracle>(cases_[index]); });
  return *slot.oracle;
}

void SharedOracles::release(std::size_t index) {
  Slot& slot = slots_[index];
  if (slot.released.fetch_add(1, std::memory_order_acq_rel) + 1 == ranks_here_) {
    slot.oracle.reset();
  }
}

std::size_t largest_buffer(const std::vector<Case>& cases) {
  std::size_t largest = 0;
  for (const Case& c : cases) {
    const auto elements = static_cast<std::size_t>(c.count) * static_cast<std::size_t>(c.ranks);
    largest = std::max(largest, elements * size_bytes(c.dtype));
  }
  return largest;
}

Tally run_series(const std::vector<Case>& cases,
                 int rank,
                 sennit_comm_t comm,
                 SharedOracles& oracles) {
  Tally tally;
  tally.hashes.resize(cases.size());
  RankMemory memory(largest_buffer(cases));
  std::mt19937_64 places(series_seed() + static_cast<std::uint64_t>(rank));
  for (std::size_t i = 0; i < cases.size() && tally.defect.empty(); ++i) {
    RankRun run(cases[i], rank, comm, memory, places());
    if (const std::string wrong = run_case(cases[i], run, oracles.get(i), tally); !wrong.empty()) {
      tally.defect = fmt::format("{}: rank {}: {}", describe(cases[i]), rank, wrong);
    }
    tally.hashes[i] = run.output_hash();
    oracles.release(i);
  }
  return tally;
}

std::vector<Tally> run_series_as_threads(const std::vector<Case>& cases) {
  sennit_unique_id_t id;
  EXPECT_EQ(sennit_unique_id_create(&id), SENNIT_OK);
  SharedOracles oracles(cases, cases.front().ranks);
  std::vector<Tally> tallies(static_cast<std::size_t>(cases.front().ranks));
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < tallies.size(); ++rank) {
      threads.emplace_back(
          [&, rank] { tallies[rank] = join_and_run(cases, static_cast<int>(rank), id, oracles); });
    }
  }
  return tallies;
}

void expect_right(const std::vector<Case>& cases, const std::vector<Tally>& tallies) {
  const auto refused_count =
      static_cast<std::size_t>(std::ranges::count_if(cases, must_be_refused));
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

}  // namespace sennit::tests
