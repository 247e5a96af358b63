// What ranks that are processes learn when others die, stop or abort, and when.
// The bounds are what docs/errors.md promises.
#include "leaves_nothing.hpp"
#include "rank_processes.hpp"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>

namespace sennit::tests {
namespace {

constexpr double kAfterDeath = 2.0;
constexpr double kAfterLastCaller = 1.0;
constexpr double kDestroy = 5.0;

class Failure : public LeavesNothing {};

sennit_status_t all_reduce_ones(sennit_comm_t comm, float* sum) {
  const float one = 1;
  return sennit_all_reduce(&one, sum, 1, SENNIT_FLOAT32, SENNIT_SUM, comm, nullptr, nullptr);
}

// One collective after the other, small and large ones, until a call fails.
sennit_status_t run_all_collectives(sennit_comm_t comm, int ranks) {
  constexpr std::size_t kLarge = 100'000;
  const auto n = static_cast<std::size_t>(ranks);
  std::vector<float> in(kLarge * n, 1.0F);
  std::vector<float> out(kLarge * n);
  const auto round = [&](std::size_t count, int root) {
    const auto f32 = SENNIT_FLOAT32;
    const float* i = in.data();
    float* o = out.data();
    sennit_status_t status = SENNIT_OK;
    const auto then = [&](auto call) { status = status == SENNIT_OK ? call() : status; };
    then([&] { return sennit_all_reduce(i, o, count, f32, SENNIT_SUM, comm, nullptr, nullptr); });
    then([&] { return sennit_reduce(i, o, count, f32, SENNIT_MAX, root, comm, nullptr, nullptr); });
    then([&] { return sennit_broadcast(i, o, count, f32, root, comm, nullptr, nullptr); });
    then([&] { return sennit_all_gather(i, o, count, f32, comm, nullptr, nullptr); });
    then([&] {
      return sennit_reduce_scatter(i, o, count, f32, SENNIT_SUM, comm, nullptr, nullptr);
    });
    then([&] { return sennit_all_to_all(i, o, count, f32, comm, nullptr, nullptr); });
    then([&] { return sennit_gather(i, o, count, f32, root, comm, nullptr, nullptr); });
    then([&] { return sennit_scatter(i, o, count, f32, root, comm, nullptr, nullptr); });
    then([&] { return sennit_barrier(comm, nullptr, nullptr); });
    return status;
  };
  for (int k = 0;; ++k) {
    const sennit_status_t status = round(k % 3 == 2 ? kLarge : 100, k % ranks);
    if (status != SENNIT_OK) {
      return status;
    }
  }
}

TEST_F(Failure, EverySurvivorOfAKillNamesTheVictimInTime) {
  constexpr int kRanks = 4;
  const unsigned seed = seed_of_this_run();
  SCOPED_TRACE("SENNIT_TEST_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 20; ++round) {
    const int victim = std::uniform_int_distribution(0, kRanks - 1)(random);
    const double moment = std::uniform_real_distribution(0.0, 0.05)(random);
    SCOPED_TRACE("round " + std::to_string(round) + ", victim " + std::to_string(victim));
    const std::string name = fresh_name();
    RankProcesses ranks(kRanks, [&](int rank) {
      const sennit_comm_t comm = join_ranks(name, kRanks, rank);
      RankProcesses::arrive();
      const Report report = report_of([&] { return run_all_collectives(comm, kRanks); });
      sennit_comm_destroy(comm);
      return report;
    });
    ranks.await_arrivals(kRanks);
    sleep_s(moment);
    const double killed_at = now();
    ranks.signal(victim, SIGKILL);
    const auto reports = ranks.reports();
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto& report = reports[static_cast<std::size_t>(rank)];
      ASSERT_EQ(report.has_value(), rank != victim) << "rank " << rank;
      if (report) {
        EXPECT_EQ(report->status, SENNIT_RANK_FAILED) << report->message;
        EXPECT_EQ(report->blamed_ranks(), std::vector{victim}) << report->message;
        EXPECT_LT(report->ended_at - killed_at, kAfterDeath) << report->message;
      }
    }
  }
}

// A message is a call of two ranks only, without a number and without a line.
TEST_F(Failure, AKillIsToldToThoseWhoSendToTheVictimOrReceiveFromIt) {
  constexpr std::size_t kCount = 2'000'000;
  const std::string name = fresh_name();
  RankProcesses ranks(3, [&](int rank) {
    const sennit_comm_t comm = join_ranks(name, 3, rank);
    std::vector<float> data(kCount);
    const auto f32 = SENNIT_FLOAT32;
    Report report;
    if (rank == 1) {
      sennit_recv(data.data(), kCount, f32, 2, comm, nullptr, nullptr);
      static_cast<void>(::raise(SIGKILL));
    } else if (rank == 2) {
      sennit_send(data.data(), kCount, f32, 1, comm, nullptr, nullptr);
      report = report_of(
          [&] { return sennit_send(data.data(), kCount, f32, 1, comm, nullptr, nullptr); });
    } else {
      report = report_of(
          [&] { return sennit_recv(data.data(), kCount, f32, 1, comm, nullptr, nullptr); });
    }
    sennit_comm_destroy(comm);
    return report;
  });
  const auto reports = ranks.reports();
  for (const int rank : {0, 2}) {
    const auto& report = reports[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_RANK_FAILED) << report->message;
    EXPECT_EQ(report->blamed_ranks(), std::vector{1}) << report->message;
    EXPECT_LT(report->ended_at - report->called_at, kAfterDeath) << report->message;
  }
}

// ---- Deadlines ----

TEST_F(Failure, TheDeadlineNamesTheRankThatDoesNotCall) {
  const std::string name = fresh_name();
  RankProcesses ranks(3, [&](int rank) {
    const sennit_comm_t comm = join_ranks(name, 3, rank, /*deadline_s=*/1);
    sennit_barrier(comm, nullptr, nullptr);
    if (rank == 1) {
      sleep_s(3);
      return Report{.status = SENNIT_OK};
    }
    float sum = 0;
    return report_of([&] { return all_reduce_ones(comm, &sum); });
  });
  const auto reports = ranks.reports();
  for (const int rank : {0, 2}) {
    const auto& report = reports[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_DEADLINE_EXCEEDED) << report->message;
    EXPECT_EQ(report->blamed_ranks(), std::vector{1}) << report->message;
    EXPECT_LT(report->ended_at - report->called_at, 2.0) << report->message;
  }
}

// ---- Abort, destroy, shrink ----

TEST_F(Failure, AbortEndsTheWaitingOfAll) {
  const std::string name = fresh_name();
  RankProcesses ranks(4, [&](int rank) {
    const sennit_comm_t comm = join_ranks(name, 4, rank);
    sennit_barrier(comm, nullptr, nullptr);
    Report report;
    if (rank == 3) {
      sleep_s(0.2);
      report = report_of([&] { return sennit_comm_abort(comm); });
    } else {
      report = report_of([&] { return sennit_barrier(comm, nullptr, nullptr); });
    }
    const double begin = now();
    sennit_comm_destroy(comm);
    report.value = now() - begin;
    return report;
  });
  const auto reports = ranks.reports();
  ASSERT_TRUE(reports[3]);
  EXPECT_EQ(reports[3]->status, SENNIT_OK);
  for (const auto& report : reports) {
    ASSERT_TRUE(report);
    EXPECT_LT(report->value, kDestroy) << "destroy";
    if (&report != &reports[3]) {
      EXPECT_EQ(report->status, SENNIT_ABORTED) << report->message;
      EXPECT_LT(report->ended_at - reports[3]->called_at, kAfterLastCaller) << report->message;
    }
  }
}

TEST_F(Failure, AbortByAnotherThreadEndsTheWaitingOfThisRank) {
  const std::string name = fresh_name();
  RankProcesses ranks(2, [&](int rank) {
    const sennit_comm_t comm = join_ranks(name, 2, rank);
    if (rank == 1) {
      sleep_s(1);
      return Report{.status = SENNIT_OK};
    }
    const std::jthread aborter([&] {
      sleep_s(0.2);
      sennit_comm_abort(comm);
    });
    return report_of([&] { return sennit_barrier(comm, nullptr, nullptr); });
  });
  const auto reports = ranks.reports();
  ASSERT_TRUE(reports[0]);
  EXPECT_EQ(reports[0]->status, SENNIT_ABORTED) << reports[0]->message;
  EXPECT_LT(reports[0]->ended_at - reports[0]->called_at, 0.2 + kAfterLastCaller);
}

TEST_F(Failure, DestroyWithAnOutstandingCallNeedsNoPeer) {
  const std::string name = fresh_name();
  RankProcesses ranks(2, [&](int rank) {
    const sennit_comm_t comm = join_ranks(name, 2, rank);
    if (rank == 1) {
      sleep_s(6);
      return Report{.status = SENNIT_OK};
    }
    float sum = 0;
    const float one = 1;
    sennit_work_t work = nullptr;
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.work = &work;
    sennit_all_reduce(&one, &sum, 1, SENNIT_FLOAT32, SENNIT_SUM, comm, nullptr, &options);
    Report report = report_of([&] { return sennit_comm_destroy(comm); });
    report.value = sennit_work_wait(work, -1);
    sennit_work_destroy(work);
    return report;
  });
  const auto reports = ranks.reports();
  ASSERT_TRUE(reports[0]);
  EXPECT_EQ(reports[0]->status, SENNIT_INVALID_USAGE);
  EXPECT_EQ(static_cast<int>(reports[0]->value), SENNIT_ABORTED);
  EXPECT_LT(reports[0]->ended_at - reports[0]->called_at, kDestroy);
}

TEST_F(Failure, SurvivorsShrinkAndGoOn) {
  constexpr int kVictim = 1;
  const std::string name = fresh_name();
  RankProcesses ranks(4, [&](int rank) {
    const sennit_comm_t comm = join_ranks(name, 4, rank);
    sennit_barrier(comm, nullptr, nullptr);
    if (rank == kVictim) {
      ::kill(::getpid(), SIGKILL);
    }
    float sum = 0;
    if (all_reduce_ones(comm, &sum) != SENNIT_RANK_FAILED) {
      return Report{};
    }
    sennit_comm_t smaller = nullptr;
    Report report =
        report_of([&] { return sennit_comm_shrink(comm, nullptr, 0, &smaller, nullptr); });
    if (report.status == SENNIT_OK) {
      report.status = all_reduce_ones(smaller, &sum);
      report.value = sum;
    }
    sennit_comm_destroy(smaller);
    sennit_comm_destroy(comm);
    return report;
  });
  const auto reports = ranks.reports();
  for (const int rank : {0, 2, 3}) {
    const auto& report = reports[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(report) << rank;
    EXPECT_EQ(report->status, SENNIT_OK) << report->message;
    EXPECT_EQ(report->value, 3);
    EXPECT_LT(report->ended_at - report->called_at, 5.0) << "shrink";
  }
}

// ---- Stopped ranks ----

// All ranks have joined, and begin one large all_reduce while rank 2 is stopped.
Report all_reduce_around_a_stop(const std::string& name, int rank, double deadline_s) {
  constexpr std::size_t kCount = 300'000;
  const sennit_comm_t comm = join_ranks(name, 4, rank, deadline_s);
  std::vector<float> data(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    data[i] = static_cast<float>(rank * 1000 + static_cast<int>(i % 1000));
  }
  sennit_barrier(comm, nullptr, nullptr);
  RankProcesses::arrive();
  sleep_s(0.3);  // the parent stops rank 2 in here
  Report report = report_of([&] {
    return sennit_all_reduce(
        data.data(), data.data(), kCount, SENNIT_FLOAT32, SENNIT_SUM, comm, nullptr, nullptr);
  });
  for (std::size_t i = 0; i < kCount; ++i) {
    report.value += data[i] == static_cast<float>(6000 + 4 * static_cast<int>(i % 1000)) ? 0 : 1;
  }
  sennit_comm_destroy(comm);
  return report;
}

std::vector<std::optional<Report>> stop_rank_2(double deadline_s, double stop_s) {
  const std::string name = fresh_name();
  RankProcesses ranks(4,
                      [&](int rank) { return all_reduce_around_a_stop(name, rank, deadline_s); });
  ranks.await_arrivals(4);
  ranks.signal(2, SIGSTOP);
  sleep_s(stop_s);
  ranks.signal(2, SIGCONT);
  return ranks.reports();
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(Failure, ARankThatStopsForAWhileIsWarnedOfAndHarmsNothing) {
  const std::string log = testing::TempDir() + fresh_name() + ".log";
  ::setenv("SENNIT_DEBUG_FILE", log.c_str(), 1);
  for (const auto& report : stop_rank_2(/*deadline_s=*/30, /*stop_s=*/5.6)) {
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_OK) << report->message;
    EXPECT_EQ(report->value, 0) << "wrong elements";
  }
  ::unsetenv("SENNIT_DEBUG_FILE");
  const std::string warnings = read_file(log);
  std::filesystem::remove(log);
  EXPECT_NE(warnings.find("waits for 5 s: stopped by a signal or a debugger: rank 2 ("),
            std::string::npos)
      << warnings;
}

TEST_F(Failure, TheDeadlineSaysThatARankIsStopped) {
  const auto reports = stop_rank_2(/*deadline_s=*/1, /*stop_s=*/2.5);
  for (const int rank : {0, 1, 3}) {
    const auto& report = reports[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_DEADLINE_EXCEEDED) << report->message;
    EXPECT_EQ(report->blamed_ranks(), std::vector{2}) << report->message;
    EXPECT_NE(std::string(report->evidence).find("stopped"), std::string::npos) << report->evidence;
  }
}

// ---- Fork ----

// In a child of a rank; 0 when every use is refused and none waits.
int use_in_child(sennit_comm_t comm, sennit_work_t work) {
  float sum = 0;
  int done = 0;
  sennit_comm_t smaller = nullptr;
  const double begin = now();
  const bool refused =
      all_reduce_ones(comm, &sum) == SENNIT_INVALID_USAGE &&
      sennit_work_wait(work, -1) == SENNIT_INVALID_USAGE &&
      sennit_work_test(work, &done) == SENNIT_INVALID_USAGE &&
      sennit_comm_shrink(comm, nullptr, 0, &smaller, nullptr) == SENNIT_INVALID_USAGE &&
      sennit_comm_abort(comm) == SENNIT_INVALID_USAGE && sennit_work_destroy(work) == SENNIT_OK &&
      sennit_comm_destroy(comm) == SENNIT_OK;
  return refused && now() - begin < kDestroy ? 0 : 1;
}

TEST_F(Failure, AForkedChildIsRefusedAndItsParentGoesOn) {
  const std::string name = fresh_name();
  RankProcesses ranks(2, [&](int rank) {
    const sennit_comm_t comm = join_ranks(name, 2, rank);
    if (rank == 1) {
      RankProcesses::arrive();
      sleep_s(0.3);  // rank 0 forks with its call begun
    }
    const float one = 1;
    float sum = 0;
    sennit_work_t work = nullptr;
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.work = &work;
    sennit_all_reduce(&one, &sum, 1, SENNIT_FLOAT32, SENNIT_SUM, comm, nullptr, &options);
    const pid_t child = ::fork();
    if (child == 0) {
      ::_exit(use_in_child(comm, work));
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    Report report = report_of([&] { return sennit_work_wait(work, -1); });
    sennit_work_destroy(work);
    report.value = static_cast<double>(sum) + status;
    if (report.status == SENNIT_OK) {
      report.status = all_reduce_ones(comm, &sum);
    }
    sennit_comm_destroy(comm);
    return report;
  });
  for (const auto& report : ranks.reports()) {
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_OK) << report->message;
    EXPECT_EQ(report->value, 2) << "the sum, and the child's status";
  }
}

}  // namespace
}  // namespace sennit::tests
