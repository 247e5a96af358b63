// The matrix of calls that differ: in each row one rank calls something else than the others. Every
// rank must get an error within a second of the last caller, with both calls by name.
#include "leaves_nothing.hpp"
#include "rank_processes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sennit::tests {
namespace {

constexpr int kRanks = 4;
constexpr double kAfterLastCaller = 1.0;
constexpr std::size_t kLarge = 100'000;

class Mismatch : public LeavesNothing {};

// What a rank calls; stops at the first failure.
using Calls = std::function<sennit_status_t(sennit_comm_t)>;

struct Difference {
  std::string name;
  Calls common;
  Calls odd;                       // of the one rank that differs
  std::vector<std::string> named;  // what each message must say
};

float* input() {
  static std::vector<float> data(kLarge * kRanks, 1.0F);
  return data.data();
}

float* output() {
  static std::vector<float> data(kLarge * kRanks);
  return data.data();
}

Calls all_reduce(std::size_t count,
                 sennit_dtype_t dtype = SENNIT_FLOAT32,
                 sennit_redop_t op = SENNIT_SUM) {
  return [=](sennit_comm_t comm) {
    return sennit_all_reduce(input(), output(), count, dtype, op, comm, nullptr, nullptr);
  };
}

Calls barrier() {
  return [](sennit_comm_t comm) { return sennit_barrier(comm, nullptr, nullptr); };
}

Calls in_turn(const std::vector<Calls>& calls) {
  return [=](sennit_comm_t comm) {
    for (const Calls& call : calls) {
      if (const sennit_status_t status = call(comm); status != SENNIT_OK) {
        return status;
      }
    }
    return SENNIT_OK;
  };
}

// A rooted collective, as a function of count and root.
using Rooted = std::function<Calls(std::size_t count, int root)>;

std::vector<std::pair<std::string, Rooted>> rooted_collectives() {
  const auto f32 = SENNIT_FLOAT32;
  return {
      {"reduce",
       [=](std::size_t count, int root) {
         return [=](sennit_comm_t comm) {
           return sennit_reduce(
               input(), output(), count, f32, SENNIT_SUM, root, comm, nullptr, nullptr);
         };
       }},
      {"broadcast",
       [=](std::size_t count, int root) {
         return [=](sennit_comm_t comm) {
           return sennit_broadcast(input(), output(), count, f32, root, comm, nullptr, nullptr);
         };
       }},
      {"gather",
       [=](std::size_t count, int root) {
         return [=](sennit_comm_t comm) {
           return sennit_gather(input(), output(), count, f32, root, comm, nullptr, nullptr);
         };
       }},
      {"scatter",
       [=](std::size_t count, int root) {
         return [=](sennit_comm_t comm) {
           return sennit_scatter(input(), output(), count, f32, root, comm, nullptr, nullptr);
         };
       }},
  };
}

std::vector<Difference> differences() {
  const Calls all_gather = [](sennit_comm_t comm) {
    return sennit_all_gather(input(), output(), 10, SENNIT_FLOAT32, comm, nullptr, nullptr);
  };
  const Calls all_to_all = [](sennit_comm_t comm) {
    return sennit_all_to_all(input(), output(), 10, SENNIT_FLOAT32, comm, nullptr, nullptr);
  };
  const std::string ten = "all_reduce of 10 x float32, sum";
  std::vector<Difference> rows = {
      {"collective without data", all_reduce(10), barrier(), {ten, "called barrier"}},
      {"collective", all_gather, all_to_all, {"all_gather of 10 x", "all_to_all of 10 x"}},
      {"count", all_reduce(10), all_reduce(11), {ten, "all_reduce of 11 x float32, sum"}},
      {"small against large count", all_reduce(10), all_reduce(kLarge), {ten, "of 100000 x"}},
      {"nothing against something", all_reduce(0), all_reduce(10), {"of 0 x float32", ten}},
      {"dtype", all_reduce(10), all_reduce(10, SENNIT_INT32), {ten, "of 10 x int32, sum"}},
      {"operator",
       all_reduce(10),
       all_reduce(10, SENNIT_FLOAT32, SENNIT_MAX),
       {ten, "of 10 x float32, max"}},
      {"order",
       in_turn({all_reduce(10), all_gather}),
       in_turn({all_gather, all_reduce(10)}),
       {ten, "all_gather of 10 x float32"}},
      {"missing call before another",
       in_turn({all_reduce(10), all_gather}),
       all_gather,
       {ten, "all_gather of 10 x float32"}},
      {"extra call before another",
       all_gather,
       in_turn({all_reduce(10), all_gather}),
       {ten, "all_gather of 10 x float32"}},
  };
  for (const auto& [name, call] : rooted_collectives()) {
    for (const std::size_t count : {std::size_t{10}, kLarge}) {
      rows.push_back({"root of " + name + " of " + std::to_string(count),
                      call(count, 0),
                      call(count, 2),
                      {"root 0", "root 2"}});
    }
  }
  return rows;
}

Report differ(const Difference& difference, const std::string& name, int rank, int odd) {
  const sennit_comm_t comm = join_ranks(name, kRanks, rank);
  sennit_barrier(comm, nullptr, nullptr);
  // The first two differ, and cannot know which of them is wrong.
  sleep_s(rank == odd || rank == (odd + 1) % kRanks ? 0.0 : 0.02);
  const Report report = report_of([&] {
    sennit_status_t status = (rank == odd ? difference.odd : difference.common)(comm);
    // A rank whose part of the call needs nobody hears of it in its next one, a barrier; which it
    // may leave, too, since all have come there: those who know best only then see what has
    // arrived.
    for (int next = 0; next < 2 && status == SENNIT_OK; ++next) {
      status = sennit_barrier(comm, nullptr, nullptr);
    }
    return status;
  });
  sennit_comm_destroy(comm);
  return report;
}

double last_call(const std::vector<std::optional<Report>>& reports) {
  double last = 0;
  for (const auto& report : reports) {
    last = std::max(last, report ? report->called_at : 0);
  }
  return last;
}

// Of the ranks that have finalized.
double last_end(const std::vector<std::optional<Report>>& reports) {
  double last = 0;
  for (const auto& report : reports) {
    last = std::max(last, report && report->status == SENNIT_OK ? report->ended_at : 0);
  }
  return last;
}

TEST_F(Mismatch, IsToldToEveryRankInTimeWithBothCalls) {
  for (const Difference& difference : differences()) {
    for (int odd = 0; odd < kRanks; ++odd) {
      SCOPED_TRACE(difference.name + ", rank " + std::to_string(odd) + " differs");
      const std::string name = fresh_name();
      RankProcesses ranks(kRanks, [&](int rank) { return differ(difference, name, rank, odd); });
      const auto reports = ranks.reports();
      for (const auto& report : reports) {
        ASSERT_TRUE(report);
        EXPECT_EQ(report->status, SENNIT_MISMATCH) << report->message;
        // Also if it has come first: the others decide.
        EXPECT_EQ(report->blamed_ranks(), std::vector{odd}) << report->message;
        EXPECT_LT(report->ended_at - last_call(reports), kAfterLastCaller) << report->message;
        for (const std::string& call : difference.named) {
          EXPECT_NE(std::string(report->evidence).find(call), std::string::npos)
              << "no '" << call << "' in: " << report->message;
        }
      }
    }
  }
}

// The last call of a program is missing on one rank, or one rank makes one more.
TEST_F(Mismatch, WithRanksThatMakeNoMoreCallsIsToldToo) {
  for (const bool one_more : {false, true}) {
    for (int odd = 0; odd < kRanks; ++odd) {
      SCOPED_TRACE(std::string(one_more ? "one more" : "one missing") + " on rank " +
                   std::to_string(odd));
      const std::string name = fresh_name();
      RankProcesses ranks(kRanks, [&](int rank) {
        const sennit_comm_t comm = join_ranks(name, kRanks, rank);
        sennit_barrier(comm, nullptr, nullptr);
        const bool calls = (rank == odd) == one_more;
        const Report report =
            report_of([&] { return calls ? all_reduce(10)(comm) : sennit_comm_finalize(comm); });
        sennit_comm_destroy(comm);
        return report;
      });
      const auto reports = ranks.reports();
      for (int rank = 0; rank < kRanks; ++rank) {
        const auto& report = reports[static_cast<std::size_t>(rank)];
        ASSERT_TRUE(report);
        if ((rank == odd) != one_more) {
          EXPECT_EQ(report->status, SENNIT_OK) << report->message;
          continue;
        }
        EXPECT_EQ(report->status, SENNIT_MISMATCH) << report->message;
        EXPECT_LT(report->ended_at - last_end(reports), kAfterLastCaller) << report->message;
        EXPECT_NE(std::string(report->message).find("finalized"), std::string::npos)
            << report->message;
        EXPECT_NE(std::string(report->message).find("all_reduce of 10 x"), std::string::npos)
            << report->message;
        // Of several that finalize, those count that had done so when it was found.
        for (const int blamed : report->blamed_ranks()) {
          EXPECT_EQ(blamed != odd, one_more) << report->message;
        }
        EXPECT_GT(report->blamed_count, 0) << report->message;
      }
    }
  }
}

// ---- Messages ----

Calls send(std::size_t count, int peer, sennit_dtype_t dtype = SENNIT_FLOAT32) {
  return [=](sennit_comm_t comm) {
    return sennit_send(input(), count, dtype, peer, comm, nullptr, nullptr);
  };
}

Calls recv(std::size_t count, int peer, sennit_dtype_t dtype = SENNIT_FLOAT32) {
  return [=](sennit_comm_t comm) {
    return sennit_recv(output(), count, dtype, peer, comm, nullptr, nullptr);
  };
}

// Whoever needs nothing of the other end hears of the difference in the barriers behind it.
Report call_then_meet(const std::string& name, int ranks, int rank, const Calls& calls) {
  const sennit_comm_t comm = join_ranks(name, ranks, rank);
  const Report report = report_of([&] { return in_turn({calls, barrier(), barrier()})(comm); });
  sennit_comm_destroy(comm);
  return report;
}

void expect_mismatch(const std::vector<std::optional<Report>>& reports,
                     const std::vector<std::string>& named) {
  for (const auto& report : reports) {
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_MISMATCH) << report->message;
    EXPECT_LT(report->ended_at - last_call(reports), kAfterLastCaller) << report->message;
    for (const std::string& words : named) {
      EXPECT_NE(std::string(report->message).find(words), std::string::npos)
          << "no '" << words << "' in: " << report->message;
    }
  }
}

struct Ends {
  std::size_t sent;
  std::size_t expected;
  sennit_dtype_t dtype = SENNIT_FLOAT32;  // at the receiver
};

// Rank 0 sends, rank 1 receives; one of them comes late.
std::vector<std::optional<Report>> reports_of_ends(const std::string& name,
                                                   const Ends& ends,
                                                   bool behind_a_collective,
                                                   int late) {
  RankProcesses ranks(2, [&](int rank) {
    const Calls before = behind_a_collective ? barrier() : in_turn({});
    const Calls message = rank == 0 ? send(ends.sent, 1) : recv(ends.expected, 0, ends.dtype);
    return call_then_meet(name, 2, rank, [&](sennit_comm_t comm) {
      const sennit_status_t status = before(comm);
      sleep_s(rank == late ? 0.02 : 0.0);
      return status == SENNIT_OK ? message(comm) : status;
    });
  });
  return ranks.reports();
}

TEST_F(Mismatch, OfTheTwoEndsOfAMessageIsToldToBothWithCountAndType) {
  for (const Ends& ends : {Ends{0, 4},
                           Ends{4, 0},
                           Ends{4, 5},
                           Ends{5, 4},
                           Ends{4, kLarge},
                           Ends{kLarge, 4},
                           Ends{kLarge, 0},
                           Ends{0, kLarge},
                           Ends{kLarge, kLarge - 1},
                           Ends{4, 4, SENNIT_INT32},
                           Ends{kLarge, kLarge, SENNIT_INT32}}) {
    for (const bool behind_a_collective : {false, true}) {
      for (int late = 0; late < 2; ++late) {
        SCOPED_TRACE(std::to_string(ends.sent) + " for " + std::to_string(ends.expected) +
                     (behind_a_collective ? " behind a collective" : "") + ", rank " +
                     std::to_string(late) + " late");
        expect_mismatch(reports_of_ends(fresh_name(), ends, behind_a_collective, late),
                        {"sends " + std::to_string(ends.sent) + " x float32",
                         "expects " + std::to_string(ends.expected) +
                             (ends.dtype == SENNIT_INT32 ? " x int32" : " x float32")});
      }
    }
  }
}

// What the other rank has called under the number of this call lies so far back that its line has
// forgotten it: it was in calls without data meanwhile, which end at once.
TEST_F(Mismatch, OfACallThatIsLongOverOnTheOtherRankIsToldInTime) {
  const Calls nothing = all_reduce(0);
  const Calls four = in_turn({nothing, nothing, nothing, nothing});
  struct Case {
    std::string name;
    Calls late;   // of the rank that has something to send
    Calls early;  // of the other
    sennit_status_t status_of_early;
  };
  const std::vector<Case> cases = {
      {"goes on", all_reduce(10), in_turn({four, barrier()}), SENNIT_MISMATCH},
      {"goes on, large", all_reduce(kLarge), in_turn({four, barrier()}), SENNIT_MISMATCH},
      {"makes no more calls", all_reduce(10), in_turn({four, sennit_comm_finalize}), SENNIT_OK},
  };
  for (const Case& differs : cases) {
    SCOPED_TRACE(differs.name);
    const std::string name = fresh_name();
    RankProcesses ranks(2, [&](int rank) {
      const sennit_comm_t comm = join_ranks(name, 2, rank);
      sleep_s(rank == 0 ? 0.1 : 0.0);
      const Report report =
          report_of([&] { return (rank == 0 ? differs.late : differs.early)(comm); });
      sennit_comm_destroy(comm);
      return report;
    });
    const auto reports = ranks.reports();
    ASSERT_TRUE(reports[0]);
    ASSERT_TRUE(reports[1]);
    EXPECT_EQ(reports[0]->status, SENNIT_MISMATCH) << reports[0]->message;
    EXPECT_EQ(reports[1]->status, differs.status_of_early) << reports[1]->message;
    EXPECT_LT(reports[0]->ended_at - last_call(reports), kAfterLastCaller) << reports[0]->message;
  }
}

// Waits as programs do that look after signals in between.
Calls in_slices(const std::function<sennit_status_t(sennit_comm_t, sennit_work_t*)>& start) {
  return [=](sennit_comm_t comm) {
    sennit_work_t work = nullptr;
    sennit_status_t status = start(comm, &work);
    while (status == SENNIT_OK || status == SENNIT_IN_PROGRESS) {
      status = sennit_work_wait(work, 0.05);
      if (status == SENNIT_OK) {
        break;
      }
    }
    sennit_work_destroy(work);
    return status;
  };
}

Calls send_in_slices(std::size_t count, int peer) {
  return in_slices([=](sennit_comm_t comm, sennit_work_t* work) {
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.work = work;
    return sennit_send(input(), count, SENNIT_FLOAT32, peer, comm, nullptr, &options);
  });
}

Calls barrier_in_slices() {
  return in_slices([](sennit_comm_t comm, sennit_work_t* work) {
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.work = work;
    return sennit_barrier(comm, nullptr, &options);
  });
}

TEST_F(Mismatch, OfCallsThatWaitForEachOtherInACircleIsToldLongBeforeTheDeadline) {
  const std::string large = std::to_string(kLarge) + " x float32";
  struct Circle {
    std::string name;
    std::vector<Calls> calls;  // by rank
    std::vector<std::string> named;
  };
  const std::vector<Circle> circles = {
      {"a send and a collective",
       {send(kLarge, 1), all_reduce(10)},
       {"waits in send of " + large + " to rank 1", "waits in all_reduce of 10 x float32, sum"}},
      {"a send and a barrier, in slices",
       {send_in_slices(kLarge, 1), barrier_in_slices()},
       {"waits in send of " + large + " to rank 1", "waits in barrier (call 1) for rank 0"}},
      {"a recv and a collective behind another",
       {in_turn({barrier(), recv(4, 1)}), in_turn({barrier(), all_reduce(10)})},
       {"waits in recv of 4 x float32 from rank 1", "all_reduce of 10 x float32, sum"}},
      {"two sends",
       {send(kLarge, 1), send(kLarge, 0)},
       {"waits in send of " + large + " to rank 1", "waits in send of " + large + " to rank 0"}},
      {"three recvs, beside a rank that has no part in it",
       {recv(4, 1), recv(5, 2), recv(6, 0), barrier()},
       {"waits in recv of 4 x float32 from rank 1",
        "waits in recv of 5 x float32 from rank 2",
        "waits in recv of 6 x float32 from rank 0"}},
  };
  for (const Circle& circle : circles) {
    SCOPED_TRACE(circle.name);
    const std::string name = fresh_name();
    const int count = static_cast<int>(circle.calls.size());
    RankProcesses ranks(count, [&](int rank) {
      return call_then_meet(name, count, rank, circle.calls[static_cast<std::size_t>(rank)]);
    });
    expect_mismatch(ranks.reports(), circle.named);
  }
}

// Rank 1 has started a collective and comes to its recv only later, while rank 0 waits in its send.
TEST_F(Mismatch, IsNotToldWhileTheCallMayStillCome) {
  constexpr double kAway = 0.9;
  struct Way {
    std::string name;
    std::function<void(sennit_work_t)> spend_time;
  };
  const std::vector<Way> ways = {
      {"elsewhere", [](sennit_work_t) { sleep_s(kAway); }},
      {"in one wait that has an end", [](sennit_work_t work) { sennit_work_wait(work, kAway); }},
      {"asking now and then",
       [](sennit_work_t work) {
         int done = 0;
         for (const double until = now() + kAway; now() < until;) {
           sennit_work_test(work, &done);
           sennit_work_wait(work, 0.01);
         }
       }},
  };
  for (const Way& way : ways) {
    SCOPED_TRACE(way.name);
    const std::string name = fresh_name();
    RankProcesses ranks(2, [&](int rank) {
      return call_then_meet(name, 2, rank, [&](sennit_comm_t comm) -> sennit_status_t {
        if (rank == 0) {
          return in_turn({send(kLarge, 1), barrier()})(comm);
        }
        sennit_work_t work = nullptr;
        sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
        options.work = &work;
        sennit_status_t status = sennit_barrier(comm, nullptr, &options);
        way.spend_time(work);
        status = status == SENNIT_OK ? recv(kLarge, 0)(comm) : status;
        status = status == SENNIT_OK ? sennit_work_wait(work, -1) : status;
        sennit_work_destroy(work);
        return status;
      });
    });
    for (const auto& report : ranks.reports()) {
      ASSERT_TRUE(report);
      EXPECT_EQ(report->status, SENNIT_OK) << report->message;
    }
  }
}

// ---- Late calls ----

// A call that cannot end in time, on ranks that have met just before.
std::vector<std::optional<Report>> reports_of_a_slow_call(const std::string& name) {
  RankProcesses ranks(2, [&](int rank) {
    setenv("SENNIT_SLOT_BYTES", "1024", 1);  // a call that takes its time
    setenv("SENNIT_SLOTS", "1", 1);
    const sennit_comm_t comm = join_ranks(name, 2, rank);
    constexpr std::size_t kCount = std::size_t{256} << 20;
    std::vector<std::uint8_t> data(kCount);
    sennit_barrier(comm, nullptr, nullptr);
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.protocol = "slots";
    options.deadline_s = 0.2;
    const Report report = report_of([&] {
      return sennit_all_reduce(data.data(),
                               data.data(),
                               kCount,
                               SENNIT_FLOAT8_E4M3FN,
                               SENNIT_SUM,
                               comm,
                               nullptr,
                               &options);
    });
    sennit_comm_destroy(comm);
    return report;
  });
  return ranks.reports();
}

// A rank of a busy machine may stand still beyond the deadline: one call of many has to show it.
TEST_F(Mismatch, IsNoneWhereACallIsLateWhoseDataMoves) {
  bool is_told = false;
  for (int call = 0; call < 20 && !is_told; ++call) {
    for (const auto& report : reports_of_a_slow_call(fresh_name())) {
      ASSERT_TRUE(report);
      EXPECT_EQ(report->status, SENNIT_DEADLINE_EXCEEDED) << report->message;
      is_told = is_told || std::string(report->message).find("its data moves") != std::string::npos;
    }
  }
  EXPECT_TRUE(is_told);
}

// The receiver has begun its recv and does something else, and the sender makes other calls: those
// are no progress of the message.
TEST_F(Mismatch, IsNoneWhereAMessageStandsStillBesideOthers) {
  constexpr std::size_t kVeryLarge = std::size_t{64} << 20;
  const std::string name = fresh_name();
  RankProcesses ranks(3, [&](int rank) {
    setenv("SENNIT_PATHS", "shm", 1);  // through slots, which the receiver has to empty
    const sennit_comm_t comm = join_ranks(name, 3, rank);
    std::vector<std::uint8_t> data(rank == 1 ? 0 : kVeryLarge);
    std::uint8_t byte = 0;
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    sennit_work_t work = nullptr;
    options.work = &work;
    options.deadline_s = 3;
    Report report{.status = SENNIT_OK};
    if (rank == 2) {
      options.deadline_s = 0;
      sennit_recv(data.data(), kVeryLarge, SENNIT_UINT8, 0, comm, nullptr, &options);
      sleep_s(6);
    } else if (rank == 0) {
      sennit_send(data.data(), kVeryLarge, SENNIT_UINT8, 2, comm, nullptr, &options);
    }
    for (const double until = now() + 4; rank != 2 && now() < until;) {
      const sennit_status_t status =
          rank == 0 ? sennit_send(&byte, 1, SENNIT_UINT8, 1, comm, nullptr, nullptr)
                    : sennit_recv(&byte, 1, SENNIT_UINT8, 0, comm, nullptr, nullptr);
      if (status != SENNIT_OK) {
        break;
      }
    }
    if (rank == 0) {
      report = report_of([&] { return sennit_work_wait(work, -1); });
    }
    sennit_work_destroy(work);
    sennit_comm_destroy(comm);
    return report;
  });
  const auto report = ranks.reports()[0];
  ASSERT_TRUE(report);
  EXPECT_EQ(report->status, SENNIT_DEADLINE_EXCEEDED) << report->message;
  EXPECT_NE(std::string(report->message).find("without progress"), std::string::npos)
      << report->message;
}

TEST_F(Mismatch, IsNoneWhereTheOtherEndOfAMessageIsLate) {
  const std::string name = fresh_name();
  RankProcesses ranks(2, [&](int rank) {
    const sennit_comm_t comm = join_ranks(name, 2, rank, /*deadline_s=*/0.2);
    sleep_s(rank * 0.5);
    const Report report = report_of([&] { return recv(4, 1 - rank)(comm); });
    sennit_comm_destroy(comm);
    return report;
  });
  const auto report = ranks.reports()[0];
  ASSERT_TRUE(report);
  EXPECT_EQ(report->status, SENNIT_DEADLINE_EXCEEDED) << report->message;
  const std::string evidence = report->evidence;
  EXPECT_NE(evidence.find("has not made the send that this recv needs"), std::string::npos);
  EXPECT_EQ(report->blamed_ranks(), std::vector{1});
}

}  // namespace
}  // namespace sennit::tests
