// What survivors can do after a death: shrink, and go on, again and again.
#include "leaves_nothing.hpp"
#include "rank_processes.hpp"

#include "failure_matrix/subject.hpp"

#include <gtest/gtest.h>

#include <sys/time.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

namespace sennit::tests {
namespace {

constexpr double kShrink = 5.0;

class Survivors : public LeavesNothing {};

int rank_of(sennit_comm_t comm) {
  int rank = -1;
  sennit_comm_rank(comm, &rank);
  return rank;
}

int size_of(sennit_comm_t comm) {
  int size = -1;
  sennit_comm_size(comm, &size);
  return size;
}

// Every algorithm of every collective; how many gave a wrong output or failed. One that is refused
// over a protocol leaves the communicator as it was.
int faults_of_all_collectives(sennit_comm_t comm) {
  int faults = 0;
  for (const Subject& subject : subjects(size_of(comm))) {
    SubjectCall call(subject, rank_of(comm));
    const sennit_status_t status = call.run(comm, 0);
    const bool refused = status == SENNIT_UNSUPPORTED || status == SENNIT_NOT_PROVED;
    faults += refused || (status == SENNIT_OK && call.is_right()) ? 0 : 1;
  }
  return faults;
}

// Replaces `comm` by one of the survivors.
sennit_status_t shrink(sennit_comm_t& comm) {
  sennit_comm_t smaller = nullptr;
  const sennit_status_t status = sennit_comm_shrink(comm, nullptr, 0, &smaller, nullptr);
  sennit_comm_destroy(comm);
  comm = smaller;
  return status;
}

// Ends the process at a random moment within `seconds`.
void end_within(double seconds, std::mt19937& random) {
  const double moment = std::uniform_real_distribution(1e-5, seconds)(random);
  itimerval timer{};
  timer.it_value.tv_usec = static_cast<suseconds_t>(std::ceil(moment * 1e6));
  ::setitimer(ITIMER_REAL, &timer, nullptr);  // SIGALRM ends a process that does not handle it
}

Report lose_one_rank_after_the_other(const std::string& name, int rank) {
  sennit_comm_t comm = join_ranks(name, 5, rank);
  Report report{.status = SENNIT_OK};
  for (const int victim : {1, 0, 2}) {  // numbered as each communicator has it
    if (rank_of(comm) == victim) {
      static_cast<void>(::raise(SIGKILL));
    }
    report = report_of([&] { return sennit_barrier(comm, nullptr, nullptr); });
    if (report.status != SENNIT_RANK_FAILED || report.blamed_ranks() != std::vector{victim}) {
      return report;
    }
    report = report_of([&] { return shrink(comm); });
    if (report.status != SENNIT_OK) {
      return report;
    }
    report.value = faults_of_all_collectives(comm);
    if (report.value != 0 || report.ended_at - report.called_at > kShrink) {
      return report;
    }
  }
  sennit_comm_destroy(comm);
  return report;
}

TEST_F(Survivors, ShrinkAndRunEveryCollectiveAfterEachOfThreeDeaths) {
  const std::string name = fresh_name();
  RankProcesses ranks(5, [&](int rank) { return lose_one_rank_after_the_other(name, rank); });
  int reported = 0;
  for (const auto& report : ranks.reports()) {
    if (report) {
      ++reported;
      EXPECT_EQ(report->status, SENNIT_OK) << report->message;
      EXPECT_EQ(report->value, 0) << "collectives that failed or gave a wrong output";
      EXPECT_LT(report->ended_at - report->called_at, kShrink) << "shrink";
    }
  }
  EXPECT_EQ(reported, 2) << "the last survivors";
}

// A rank that comes late to a split finds all that it needs there, so that the exchange fails for
// the others alone. All the same all of them mean one communicator by their next shrink.
TEST_F(Survivors, ShrinkAfterASplitThatFailedForSomeOfThem) {
  const std::string name = fresh_name();
  RankProcesses ranks(3, [&](int rank) {
    sennit_comm_t comm = join_ranks(name, 3, rank, /*deadline_s=*/0.5);
    sleep_s(rank == 2 ? 1.5 : 0);
    sennit_comm_t part = nullptr;
    const sennit_status_t split = sennit_comm_split(comm, 0, rank, &part, nullptr);
    sennit_comm_destroy(part);
    sennit_comm_abort(comm);
    Report report = report_of([&] { return shrink(comm); });
    report.value = split;
    if (report.status == SENNIT_OK && size_of(comm) == 3) {
      report.status = sennit_barrier(comm, nullptr, nullptr);
    }
    sennit_comm_destroy(comm);
    return report;
  });
  for (const auto& report : ranks.reports()) {
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_OK) << report->message;
    EXPECT_NE(report->value, SENNIT_OK) << "the split was to fail";
    EXPECT_LT(report->ended_at - report->called_at, kShrink + 1.5) << "shrink";
  }
}

// Calls, and shrinks when that fails, until `survivors` ranks are left; then all of them call all
// collectives. The value is the number of those that were wrong.
Report outlive_the_others(sennit_comm_t comm, int survivors) {
  double longest_shrink = 0;
  Report report = report_of([&] {
    sennit_status_t status = SENNIT_OK;
    while (status == SENNIT_OK && size_of(comm) > survivors) {
      status = sennit_barrier(comm, nullptr, nullptr);
      if (status == SENNIT_RANK_FAILED) {
        const double begin = now();
        status = shrink(comm);
        longest_shrink = std::max(longest_shrink, now() - begin);
      }
    }
    return status;
  });
  report.value = report.status == SENNIT_OK ? faults_of_all_collectives(comm) : -1;
  report.called_at = report.ended_at - longest_shrink;
  sennit_comm_destroy(comm);
  return report;
}

// Rank 1 dies in a call; ranks 2 and 4 die at moments in which the others are about to shrink, or
// shrink themselves, or use what they have shrunk to.
TEST_F(Survivors, ShrinkWhileOthersGoOnDying) {
  constexpr int kRanks = 6;
  const unsigned seed = seed_of_this_run();
  SCOPED_TRACE("SENNIT_TEST_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const std::string name = fresh_name();
    const double longest = round % 2 == 0 ? 0.003 : 0.02;
    const auto fates = static_cast<unsigned>(random());
    RankProcesses ranks(kRanks, [&](int rank) {
      std::mt19937 fate(fates + static_cast<unsigned>(rank));
      const sennit_comm_t comm = join_ranks(name, kRanks, rank);
      sennit_barrier(comm, nullptr, nullptr);
      if (rank == 1) {
        static_cast<void>(::raise(SIGKILL));
      }
      if (rank == 2 || rank == 4) {
        end_within(longest, fate);
      }
      return outlive_the_others(comm, 3);
    });
    const auto reports = ranks.reports();
    for (const int rank : {0, 3, 5}) {
      const auto& report = reports[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(report) << "rank " << rank;
      EXPECT_EQ(report->status, SENNIT_OK) << report->message;
      EXPECT_LT(report->ended_at - report->called_at, kShrink) << "the longest shrink";
      EXPECT_EQ(report->value, 0) << "collectives that failed or gave a wrong output";
    }
  }
}

}  // namespace
}  // namespace sennit::tests
