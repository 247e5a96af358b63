// What docs/errors.md promises of failures, between ranks on several nodes of this machine.
#include "rails_fixture.hpp"
#include "rank_processes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sennit::tests {
namespace {

constexpr double kAfterLastCaller = 1.0;
constexpr double kAfterDeath = 2.0;
constexpr double kAfterAbort = 1.0;
constexpr int kRanks = 4;
constexpr std::string_view kNodes = "aabb";

using Reports = std::vector<std::optional<Report>>;
using Call = std::function<sennit_status_t(sennit_comm_t)>;

class NodesFailures : public RailsFixture {};

double last_call(const Reports& reports) {
  double last = 0;
  for (const auto& report : reports) {
    last = std::max(last, report ? report->called_at : 0);
  }
  return last;
}

Call all_reduce(std::size_t count) {
  return [=](sennit_comm_t comm) {
    const std::vector<float> in(count, 1);
    std::vector<float> out(count);
    return sennit_all_reduce(
        in.data(), out.data(), count, SENNIT_FLOAT32, SENNIT_SUM, comm, nullptr, nullptr);
  };
}

Call broadcast(int root) {
  return [=](sennit_comm_t comm) {
    std::vector<float> data(10);
    return sennit_broadcast(
        data.data(), data.data(), data.size(), SENNIT_FLOAT32, root, comm, nullptr, nullptr);
  };
}

sennit_status_t meet(sennit_comm_t comm) { return sennit_barrier(comm, nullptr, nullptr); }

// ---- Different calls

struct Difference {
  std::string name;
  Call common;
  Call odd;                        // of the one rank that differs
  std::vector<std::string> named;  // what each message must say
};

// A rank may end the call that differs if no other rank needs its part. The error then comes in one
// of the next two calls.
Report differ(const Difference& difference, const std::string& name, int rank, int odd) {
  const sennit_comm_t comm = join_on(name, kNodes, rank);
  meet(comm);
  const Report report = report_of([&] {
    sennit_status_t status = (rank == odd ? difference.odd : difference.common)(comm);
    for (int next = 0; next < 2 && status == SENNIT_OK; ++next) {
      status = meet(comm);
    }
    return status;
  });
  sennit_comm_destroy(comm);
  return report;
}

TEST_F(NodesFailures, CallsThatDifferAreReportedToAllRanksInASecond) {
  const std::vector<Difference> differences = {
      {"count", all_reduce(10), all_reduce(11), {"of 10 x float32", "of 11 x float32"}},
      {"collective", all_reduce(10), meet, {"all_reduce of 10 x float32", "called barrier"}},
      {"root", broadcast(0), broadcast(2), {"root 0", "root 2"}},
  };
  for (const Difference& difference : differences) {
    for (const int odd : {0, 1, 2, 3}) {  // on the node of rank 0, and on the other one
      SCOPED_TRACE(difference.name + ", rank " + std::to_string(odd) + " differs");
      const std::string name = fresh_name();
      RankProcesses ranks(kRanks, [&](int rank) { return differ(difference, name, rank, odd); });
      const Reports reports = ranks.reports();
      for (const auto& report : reports) {
        ASSERT_TRUE(report);
        EXPECT_EQ(report->status, SENNIT_MISMATCH) << report->message;
        EXPECT_EQ(report->blamed_ranks(), std::vector{odd}) << report->message;
        EXPECT_LT(report->ended_at - last_call(reports), kAfterLastCaller) << report->message;
        for (const std::string& words : difference.named) {
          EXPECT_NE(std::string(report->evidence).find(words), std::string::npos)
              << "no '" << words << "' in: " << report->message;
        }
      }
    }
  }
}

TEST_F(NodesFailures, ARankThatMakesNoMoreCallsIsNamedInASecond) {
  for (const int odd : {1, 2}) {
    SCOPED_TRACE("rank " + std::to_string(odd));
    const std::string name = fresh_name();
    RankProcesses ranks(kRanks, [&](int rank) {
      const sennit_comm_t comm = join_on(name, kNodes, rank);
      meet(comm);
      const Report report = report_of(
          [&] { return rank == odd ? sennit_comm_finalize(comm) : all_reduce(10)(comm); });
      sennit_comm_destroy(comm);
      return report;
    });
    const Reports reports = ranks.reports();
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto& report = reports[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(report);
      if (rank == odd) {
        EXPECT_EQ(report->status, SENNIT_OK) << report->message;
        continue;
      }
      EXPECT_EQ(report->status, SENNIT_MISMATCH) << report->message;
      EXPECT_EQ(report->blamed_ranks(), std::vector{odd}) << report->message;
      EXPECT_LT(report->ended_at - last_call(reports), kAfterLastCaller) << report->message;
    }
  }
}

// ---- Ranks that are gone

// All ranks wait in a call that `victims` never make: those come to the point where they die.
Report wait_in_vain(const std::string& name,
                    int rank,
                    const std::vector<int>& victims,
                    const Call& call) {
  const sennit_comm_t comm = join_on(name, kNodes, rank);
  meet(comm);
  if (std::ranges::find(victims, rank) != victims.end()) {
    RankProcesses::arrive();
    sleep_s(60);
  }
  RankProcesses::arrive();
  const Report report = report_of([&] { return call(comm); });
  sennit_comm_destroy(comm);
  return report;
}

void expect_deaths_reported(const std::vector<int>& victims, const Call& call) {
  const std::string name = fresh_name();
  RankProcesses ranks(kRanks, [&](int rank) { return wait_in_vain(name, rank, victims, call); });
  ranks.await_arrivals(kRanks);
  sleep_s(0.05);  // until they wait
  for (const int victim : victims) {
    ranks.signal(victim, SIGKILL);
  }
  const double killed_at = now();
  const Reports reports = ranks.reports();
  for (int rank = 0; rank < kRanks; ++rank) {
    if (std::ranges::find(victims, rank) != victims.end()) {
      continue;
    }
    const auto& report = reports[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_RANK_FAILED) << report->message;
    EXPECT_LT(report->ended_at - killed_at, kAfterDeath) << report->message;
    EXPECT_GT(report->blamed_count, 0) << report->message;
    for (const int blamed : report->blamed_ranks()) {
      EXPECT_NE(std::ranges::find(victims, blamed), victims.end()) << report->message;
    }
  }
}

TEST_F(NodesFailures, TheEndOfAllRanksOfANodeIsReportedInTime) {
  for (const std::vector<int>& node : {std::vector{2, 3}, std::vector{0, 1}}) {
    SCOPED_TRACE("ranks " + std::to_string(node.front()) + " and " + std::to_string(node.back()));
    expect_deaths_reported(node, all_reduce(100'000));
  }
}

TEST_F(NodesFailures, TheDeathOfAPeerIsReportedToWhoWaitsForItsMessage) {
  for (const int victim : {2, 3}) {
    SCOPED_TRACE("rank " + std::to_string(victim));
    expect_deaths_reported({victim}, [=](sennit_comm_t comm) {
      float value = 0;
      return sennit_recv(&value, 1, SENNIT_FLOAT32, victim, comm, nullptr, nullptr);
    });
  }
}

// ---- Ranks that give up

TEST_F(NodesFailures, AnAbortIsReportedOnAllNodesInASecond) {
  for (const int quitter : {0, 3}) {
    SCOPED_TRACE("rank " + std::to_string(quitter));
    const std::string name = fresh_name();
    RankProcesses ranks(kRanks, [&](int rank) {
      const sennit_comm_t comm = join_on(name, kNodes, rank);
      meet(comm);
      if (rank == quitter) {
        sleep_s(0.2);  // until the others wait
      }
      const Report report = report_of(
          [&] { return rank == quitter ? sennit_comm_abort(comm) : all_reduce(100'000)(comm); });
      sennit_comm_destroy(comm);
      return report;
    });
    const Reports reports = ranks.reports();
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto& report = reports[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(report);
      if (rank != quitter) {
        EXPECT_EQ(report->status, SENNIT_ABORTED) << report->message;
        EXPECT_EQ(report->blamed_ranks(), std::vector{quitter}) << report->message;
        EXPECT_LT(report->ended_at - last_call(reports), kAfterAbort) << report->message;
      }
    }
  }
}

}  // namespace
}  // namespace sennit::tests
