// The matrix of calls that differ: in each row one rank calls something else than the others. Every
// rank must be told within a second of the last caller, with both calls by name.
#include "leaves_nothing.hpp"
#include "rank_processes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
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
  bool odd_is_blamed = true;
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
  sleep_s(rank == 2 ? 0.02 : 0.0);
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

// The one that differs from most; who is among the first to know may have seen only two calls, and
// then that of the lower rank counts as meant.
bool blames(const Report& report, int odd) {
  int seen = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::string name = "rank " + std::to_string(rank) + " (";
    seen += std::string(report.evidence).find(name) != std::string::npos ? 1 : 0;
  }
  return seen > 2 ? report.blamed_ranks() == std::vector{odd} : report.blamed_count == 1;
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
        EXPECT_TRUE(blames(*report, odd)) << report->message;
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

}  // namespace
}  // namespace sennit::tests
