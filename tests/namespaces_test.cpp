// Ranks in containers: little shared memory, hidden processes, and a machine to themselves, in
// which everything that is left behind can be seen.
#include "leaves_nothing.hpp"
#include "rank_processes.hpp"

#include "failure_matrix/subject.hpp"

#include <gtest/gtest.h>

#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <new>
#include <string>
#include <vector>

namespace sennit::tests {
namespace {

constexpr int kNotPermitted = 77;

// Puts this process (for CLONE_NEWPID: its children) into namespaces of its own, as the same user.
bool enter(int namespaces) {
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  if (user == 0) {
    return ::unshare(namespaces) == 0;
  }
  if (::unshare(namespaces | CLONE_NEWUSER) != 0) {
    return false;
  }
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << user << " " << user << " 1";
  std::ofstream("/proc/self/gid_map") << group << " " << group << " 1";
  return ::geteuid() == user;
}

bool mount_small_folders() {
  return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=16m") == 0 &&
         ::mount("tmpfs", "/tmp", "tmpfs", 0, "size=16m") == 0;
}

// In a child with its own /dev/shm (16 MiB), /tmp and sockets; its expectations count here.
void run_in_small_container(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (!enter(CLONE_NEWNS | CLONE_NEWNET) || !mount_small_folders()) {
      ::_exit(kNotPermitted);
    }
    body();
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotPermitted) {
    GTEST_SKIP() << "namespaces: this container forbids namespaces of one's own";
  }
  EXPECT_EQ(status, 0) << "the expectations of the child";
}

// Every collective, small and in several tiles of the largest slots.
Report call_everything(const std::string& name, int ranks, int rank) {
  const sennit_comm_t comm = join_ranks(name, ranks, rank);
  Report report{.status = SENNIT_OK};
  for (const Subject& subject : subjects(ranks)) {
    SubjectCall call(subject, rank);
    const sennit_status_t status = call.run(comm, 0);
    const bool refused = status == SENNIT_UNSUPPORTED || status == SENNIT_NOT_PROVED;
    report.value += refused || (status == SENNIT_OK && call.is_right()) ? 0 : 1;
  }
  std::vector<float> data(3'000'000, 1.0F);
  report.status = sennit_all_reduce(
      data.data(), data.data(), data.size(), SENNIT_FLOAT32, SENNIT_SUM, comm, nullptr, nullptr);
  report.value += data.back() == static_cast<float>(ranks) ? 0 : 1;
  sennit_comm_destroy(comm);
  return report;
}

void expect_all_right(RankProcesses& ranks) {
  for (const auto& report : ranks.reports()) {
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_OK) << report->message;
    EXPECT_EQ(report->value, 0) << "collectives that failed or gave a wrong output";
  }
}

TEST(Container, SixteenMebibytesOfSharedMemoryAreEnough) {
  run_in_small_container([] {
    struct statvfs info{};
    ASSERT_EQ(::statvfs("/dev/shm", &info), 0);
    ASSERT_EQ(info.f_blocks * info.f_frsize, 16U << 20);
    const std::string name = fresh_name();
    RankProcesses ranks(8, [&](int rank) { return call_everything(name, 8, rank); });
    expect_all_right(ranks);
  });
}

// ---- Nothing is left

// Ranks that end as they should, ranks that are killed in a call, and ranks that are killed while
// they join.
void end_in_every_way() {
  {
    const std::string name = fresh_name();
    RankProcesses ranks(4, [&](int rank) { return call_everything(name, 4, rank); });
    expect_all_right(ranks);
  }
  for (const int killed : {1, 4}) {  // one of them, and all
    const std::string name = fresh_name();
    RankProcesses ranks(4, [&](int rank) {
      const sennit_comm_t comm = join_ranks(name, 4, rank);
      RankProcesses::arrive();
      sleep_s(0.05);
      while (sennit_barrier(comm, nullptr, nullptr) == SENNIT_OK) {
      }
      return Report{.status = SENNIT_OK};
    });
    ranks.await_arrivals(4);
    sleep_s(0.1);
    for (int rank = 0; rank < killed; ++rank) {
      ranks.signal(rank, SIGKILL);
    }
    static_cast<void>(ranks.reports());
  }
  const std::string name = fresh_name();
  RankProcesses ranks(3, [&](int rank) {
    RankProcesses::arrive();
    if (rank < 2) {
      join_ranks(name, 3, rank);
    }
    return Report{};
  });
  ranks.await_arrivals(3);
  sleep_s(0.1);
  ranks.signal(0, SIGKILL);
  ranks.signal(1, SIGKILL);
  static_cast<void>(ranks.reports());
}

TEST(Container, NoNameNoSocketNoProcessAndNoMemoryIsLeft) {
  run_in_small_container([] {
    const std::set<std::string> names = all_names();
    struct statvfs before{};
    struct statvfs after{};
    ::statvfs("/dev/shm", &before);
    end_in_every_way();
    ::statvfs("/dev/shm", &after);
    EXPECT_EQ(all_names(), names) << "complete listings of /dev/shm, /tmp and sockets with names";
    EXPECT_EQ(after.f_bfree, before.f_bfree) << "free blocks of /dev/shm";
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
  });
}

// ---- Hidden processes

// Runs `body` as the first process of a PID namespace, in which no other rank has a number.
Report run_hidden(const std::function<Report()>& body) {
  void* memory =
      ::mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* report = new (memory) Report{.value = -1};
  if (!enter(CLONE_NEWPID)) {
    report->status = SENNIT_UNSUPPORTED;
    return *report;
  }
  const pid_t child = ::fork();
  if (child == 0) {
    *report = body();
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  return *report;
}

bool may_hide_processes() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(enter(CLONE_NEWPID) ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status == 0;
}

TEST(Container, RanksOfSeparatePidNamespacesWorkTogether) {
  if (!may_hide_processes()) {
    GTEST_SKIP() << "namespaces: this container forbids namespaces of one's own";
  }
  const std::string name = fresh_name();
  RankProcesses ranks(
      3, [&](int rank) { return run_hidden([&] { return call_everything(name, 3, rank); }); });
  expect_all_right(ranks);
}

TEST(Container, ADeathInAnotherPidNamespaceIsTold) {
  if (!may_hide_processes()) {
    GTEST_SKIP() << "namespaces: this container forbids namespaces of one's own";
  }
  const std::string name = fresh_name();
  RankProcesses ranks(3, [&](int rank) {
    return run_hidden([&] {
      const sennit_comm_t comm = join_ranks(name, 3, rank);
      sennit_barrier(comm, nullptr, nullptr);
      if (rank == 1) {
        ::_exit(1);  // a signal that it sent itself would not end the first of its namespace
      }
      const Report report = report_of([&] { return sennit_barrier(comm, nullptr, nullptr); });
      sennit_comm_destroy(comm);
      return report;
    });
  });
  const auto reports = ranks.reports();
  for (const int rank : {0, 2}) {
    const auto& report = reports[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_RANK_FAILED) << report->message;
    EXPECT_EQ(report->blamed_ranks(), std::vector{1}) << report->message;
    EXPECT_LT(report->ended_at - report->called_at, 2.0);
  }
}

}  // namespace
}  // namespace sennit::tests
