// What a rank says of a call whose deadline has passed: who is in it, who has done with it, and who
// has started it and does something else.
#include "leaves_nothing.hpp"
#include "rank_processes.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace sennit::tests {
namespace {

// More than a channel has room for and the rounds of a call that does not wait can pass on.
constexpr std::size_t kLarge = 8'000'000;
constexpr double kDeadline = 1.0;
constexpr double kAway = 2.5;  // of a rank that comes back long after

using PassedDeadline = LeavesNothing;

// Starts a call, and goes away.
template <typename Start>
Report start_and_leave(const Start& start) {
  sennit_work_t work = nullptr;
  sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
  options.work = &work;
  options.deadline_s = -1;
  const Report report = report_of([&] { return start(&options); });
  sleep_s(kAway);
  sennit_work_destroy(work);
  return report;
}

sennit_comm_t join_through_slots(const std::string& name, int ranks, int rank, double deadline_s) {
  setenv("SENNIT_PATHS", "shm", 1);
  const sennit_comm_t comm = join_ranks(name, ranks, rank, deadline_s);
  sennit_barrier(comm, nullptr, nullptr);
  return comm;
}

TEST_F(PassedDeadline, TellsWhoHasDoneWithACollectiveAndWhoDoesNotWaitForIt) {
  constexpr int kRanks = 3;
  constexpr int kAbsentMinded = 1;
  const std::string name = fresh_name();
  RankProcesses ranks(kRanks, [&](int rank) {
    const sennit_comm_t comm = join_through_slots(name, kRanks, rank, kDeadline);
    std::vector<std::uint8_t> data(kLarge, 1);
    std::vector<std::uint8_t> all(rank == 0 ? kLarge * kRanks : 0);
    const auto gather = [&](const sennit_call_options_t* options) {
      return sennit_gather(
          data.data(), all.data(), kLarge, SENNIT_UINT8, 0, comm, nullptr, options);
    };
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.algorithm = "direct";
    const Report report = rank == kAbsentMinded ? start_and_leave([&](sennit_call_options_t* own) {
      own->algorithm = options.algorithm;
      return gather(own);
    })
                                                : report_of([&] { return gather(&options); });
    if (rank == 2) {
      sleep_s(kAway);  // it lives on
    }
    sennit_comm_destroy(comm);
    return report;
  });
  const auto reports = ranks.reports();
  ASSERT_TRUE(reports[0]);
  ASSERT_TRUE(reports[2]);
  EXPECT_EQ(reports[2]->status, SENNIT_OK) << reports[2]->message;
  EXPECT_EQ(reports[0]->status, SENNIT_DEADLINE_EXCEEDED) << reports[0]->message;
  EXPECT_EQ(reports[0]->blamed_ranks(), std::vector{kAbsentMinded}) << reports[0]->message;
  const std::string evidence = reports[0]->evidence;
  EXPECT_EQ(evidence.find("rank 2 ("), 0) << evidence;
  EXPECT_NE(evidence.find("has done all of the call, and the others are in it"), std::string::npos)
      << evidence;
  EXPECT_NE(evidence.find("has started its call and does not wait for it"), std::string::npos)
      << evidence;
  EXPECT_EQ(evidence.find("all ranks"), std::string::npos) << evidence;
}

TEST_F(PassedDeadline, TellsOfAMessageOnlyWhatItsTwoRanksDo) {
  const std::string name = fresh_name();
  RankProcesses ranks(3, [&](int rank) {
    const sennit_comm_t comm = join_through_slots(name, 3, rank, kDeadline);
    std::vector<std::uint8_t> data(kLarge, 1);
    Report report{.status = SENNIT_OK};
    if (rank == 0) {
      report = report_of([&] {
        return sennit_send(data.data(), kLarge, SENNIT_UINT8, 1, comm, nullptr, nullptr);
      });
    } else if (rank == 1) {
      report = start_and_leave([&](sennit_call_options_t* options) {
        return sennit_recv(data.data(), kLarge, SENNIT_UINT8, 0, comm, nullptr, options);
      });
    } else {
      sleep_s(kAway);  // it has no part in it
    }
    sennit_comm_destroy(comm);
    return report;
  });
  const auto report = ranks.reports()[0];
  ASSERT_TRUE(report);
  EXPECT_EQ(report->status, SENNIT_DEADLINE_EXCEEDED) << report->message;
  EXPECT_EQ(report->blamed_ranks(), std::vector{1}) << report->message;
  const std::string evidence = report->evidence;
  EXPECT_EQ(evidence.find("both ranks have made their calls, without progress"), 0) << evidence;
  EXPECT_NE(evidence.find("has started its call and does not wait for it"), std::string::npos)
      << evidence;
}

}  // namespace
}  // namespace sennit::tests
