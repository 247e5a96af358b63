// Calls whose lengths vary, by ranks that are processes: what they get when two of them mean
// different lengths, and how they go together with groups and works.
#include "rank_processes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

namespace sennit::tests {
namespace {

constexpr int kRanks = 4;
constexpr double kAfterLastCaller = 1.0;
constexpr float kUntouched = -7;

// ---- Lengths that disagree ----

// Rank 1 sends `sent` elements to rank 2, which expects `expected`; all others agree on kAgreed.
struct Disagreement {
  std::size_t sent;
  std::size_t expected;
  const char* protocol;
  int late;  // the rank that comes a while after the others; -1: none
};

constexpr std::size_t kAgreed = 3;
constexpr int kSender = 1;
constexpr int kReceiver = 2;

std::size_t begin_of(const std::vector<std::size_t>& counts, int block) {
  return std::accumulate(counts.begin(), counts.begin() + block, std::size_t{0});
}

// After a call that this rank could finish, it learns of the mismatch in its next one.
Report call_then_barrier(const std::function<sennit_status_t()>& call, sennit_comm_t comm) {
  Report report = report_of(call);
  if (report.status == SENNIT_OK) {
    const Report next = report_of([&] { return sennit_barrier(comm, nullptr, nullptr); });
    report = next;
    report.value = 1;
  }
  return report;
}

Report all_to_all_v_that_disagrees(const std::string& name, int rank, const Disagreement& d) {
  const sennit_comm_t comm = join_ranks(name, kRanks, rank);
  std::vector<std::size_t> to(kRanks, kAgreed);
  std::vector<std::size_t> from(kRanks, kAgreed);
  if (rank == kSender) {
    to[kReceiver] = d.sent;
  }
  if (rank == kReceiver) {
    from[kSender] = d.expected;
  }
  const std::vector<float> in(begin_of(to, kRanks), 1.0F);
  std::vector<float> out(begin_of(from, kRanks) + 1, kUntouched);
  sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
  options.protocol = d.protocol;
  if (rank == d.late) {
    sleep_s(0.05);
  }
  Report report = call_then_barrier(
      [&] {
        return sennit_all_to_all_v(in.data(),
                                   to.data(),
                                   nullptr,
                                   out.data(),
                                   from.data(),
                                   nullptr,
                                   SENNIT_FLOAT32,
                                   comm,
                                   nullptr,
                                   &options);
      },
      comm);
  // Nothing of the message in dispute was taken, and nothing was written elsewhere.
  const auto disputed = out.begin() + static_cast<std::ptrdiff_t>(begin_of(from, kSender));
  const auto is_untouched = [](float x) { return x == kUntouched; };
  const bool whole =
      rank != kReceiver ||
      std::all_of(disputed, disputed + static_cast<std::ptrdiff_t>(d.expected), is_untouched);
  if (!whole || !is_untouched(out.back())) {
    std::snprintf(report.message, sizeof(report.message), "rank %d: memory was overwritten", rank);
    report.status = SENNIT_INTERNAL_ERROR;
  }
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

// Every rank learns of a mismatch in time, and one of the two names both ends and both counts.
void expect_mismatch(const std::vector<std::optional<Report>>& reports, const std::string& words) {
  const double called = last_call(reports);
  bool named = false;
  for (const auto& report : reports) {
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_MISMATCH) << report->message;
    EXPECT_LT(report->ended_at - called, kAfterLastCaller);
    const std::string evidence = report->evidence;
    const bool tells = evidence.find("sends " + words.substr(0, words.find('/')) + " elements") !=
                           std::string::npos &&
                       evidence.ends_with("which expects " + words.substr(words.find('/') + 1));
    if (tells) {
      EXPECT_EQ(report->blamed_ranks(), (std::vector{kSender, kReceiver}));
      named = true;
    }
  }
  EXPECT_TRUE(named) << "nobody reported " << words;
}

TEST(VectorCalls, TwoRanksThatMeanDifferentCountsAreBothNamed) {
  constexpr std::size_t kLarge = 1'000'000;  // more than all slots hold
  for (const char* protocol : {"slots", "direct"}) {
    for (const int late : {-1, kSender, kReceiver}) {
      for (const auto& [sent, expected] : {std::pair<std::size_t, std::size_t>{7, 5},
                                           {5, 7},
                                           {0, 5},
                                           {5, 0},
                                           {kLarge, kLarge - 1},
                                           {kLarge, 0},
                                           {3, kLarge}}) {
        SCOPED_TRACE(std::to_string(sent) + " against " + std::to_string(expected) + ", " +
                     protocol + ", late: " + std::to_string(late));
        const Disagreement d{sent, expected, protocol, late};
        const std::string name = fresh_name();
        RankProcesses ranks(kRanks,
                            [&](int rank) { return all_to_all_v_that_disagrees(name, rank, d); });
        expect_mismatch(ranks.reports(), std::to_string(sent) + "/" + std::to_string(expected));
      }
    }
  }
}

enum class Kind { kAllGather, kGather, kScatter };

// Rank 1's part has 7 elements as it says itself (as the root says, in scatter_v: rank 1 is the
// root then and rank 2 the one that expects another number).
Report part_that_disagrees(const std::string& name, int rank, Kind kind) {
  const sennit_comm_t comm = join_ranks(name, kRanks, rank);
  std::vector<std::size_t> counts(kRanks, kAgreed);
  const bool told_other = rank != kReceiver;
  const std::size_t disputed = told_other ? 7 : 5;
  counts[kind == Kind::kScatter ? kReceiver : kSender] = disputed;
  const std::vector<float> in(64, 1.0F);
  std::vector<float> out(64);
  const std::size_t own = counts[static_cast<std::size_t>(rank)];
  const auto f32 = SENNIT_FLOAT32;
  Report report = call_then_barrier(
      [&] {
        switch (kind) {
          case Kind::kAllGather:
            return sennit_all_gather_v(
                in.data(), own, out.data(), counts.data(), nullptr, f32, comm, nullptr, nullptr);
          case Kind::kGather:
            return sennit_gather_v(in.data(),
                                   own,
                                   out.data(),
                                   counts.data(),
                                   nullptr,
                                   f32,
                                   kReceiver,
                                   comm,
                                   nullptr,
                                   nullptr);
          default:
            return sennit_scatter_v(in.data(),
                                    counts.data(),
                                    nullptr,
                                    out.data(),
                                    own,
                                    f32,
                                    kSender,
                                    comm,
                                    nullptr,
                                    nullptr);
        }
      },
      comm);
  sennit_comm_destroy(comm);
  return report;
}

TEST(VectorCalls, PartsWhoseLengthIsInDisputeAreNamed) {
  for (const Kind kind : {Kind::kAllGather, Kind::kGather, Kind::kScatter}) {
    SCOPED_TRACE(static_cast<int>(kind));
    const std::string name = fresh_name();
    RankProcesses ranks(kRanks, [&](int rank) { return part_that_disagrees(name, rank, kind); });
    expect_mismatch(ranks.reports(), "7/5");
  }
}

// A call with lengths that vary against one without.
TEST(VectorCalls, AnotherCallThanThatOfTheOthersIsNamedWithItsName) {
  const std::string name = fresh_name();
  RankProcesses ranks(kRanks, [&](int rank) {
    const sennit_comm_t comm = join_ranks(name, kRanks, rank);
    const std::vector<float> in(16, 1.0F);
    std::vector<float> out(16);
    const std::vector<std::size_t> counts(kRanks, 4);
    const Report report = report_of([&] {
      return rank == 3 ? sennit_all_to_all(
                             in.data(), out.data(), 4, SENNIT_FLOAT32, comm, nullptr, nullptr)
                       : sennit_all_to_all_v(in.data(),
                                             counts.data(),
                                             nullptr,
                                             out.data(),
                                             counts.data(),
                                             nullptr,
                                             SENNIT_FLOAT32,
                                             comm,
                                             nullptr,
                                             nullptr);
    });
    sennit_comm_destroy(comm);
    return report;
  });
  for (const auto& report : ranks.reports()) {
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_MISMATCH) << report->message;
    EXPECT_EQ(report->blamed_ranks(), std::vector{3});
    EXPECT_NE(std::string(report->evidence).find("called all_to_all_v of float32"),
              std::string::npos)
        << report->evidence;
  }
}

// ---- Groups and works ----

// Counts that live no longer than the posting, works, sends and v-calls in one group.
Report group_of_vector_calls(const std::string& name, int rank) {
  Report report{.status = SENNIT_OK};
  const auto ok = [&](bool condition, const char* what) {
    if (!condition && report.status == SENNIT_OK) {
      report.status = SENNIT_INTERNAL_ERROR;
      std::snprintf(report.message, sizeof(report.message), "%s", what);
    }
  };
  const sennit_comm_t comm = join_ranks(name, kRanks, rank);
  // Rank r sends r + d elements of value 10 r + d to rank d.
  std::vector<float> in;
  for (int d = 0; d < kRanks; ++d) {
    const auto count = static_cast<std::size_t>(rank) + static_cast<std::size_t>(d);
    in.insert(in.end(), count, static_cast<float>(10 * rank + d));
  }
  std::vector<float> exchanged(64);
  std::vector<float> gathered(64);
  const auto mine = static_cast<float>(rank);
  float received = 0;
  sennit_work_t work = nullptr;
  sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
  options.work = &work;
  {
    std::vector<std::size_t> counts;
    for (int peer = 0; peer < kRanks; ++peer) {
      counts.push_back(static_cast<std::size_t>(rank) + static_cast<std::size_t>(peer));
    }
    // Only the ranks below 2 have an element.
    std::vector<std::size_t> parts{1, 1, 0, 0};
    std::vector<std::size_t> places{1, 0, 9, 9};
    const auto f32 = SENNIT_FLOAT32;
    sennit_group_start();
    sennit_all_to_all_v(in.data(),
                        counts.data(),
                        nullptr,
                        exchanged.data(),
                        counts.data(),
                        nullptr,
                        f32,
                        comm,
                        nullptr,
                        nullptr);
    sennit_send(&mine, 1, f32, (rank + 1) % kRanks, comm, nullptr, nullptr);
    sennit_all_gather_v(&mine,
                        rank < 2 ? 1 : 0,
                        gathered.data(),
                        parts.data(),
                        places.data(),
                        f32,
                        comm,
                        nullptr,
                        &options);
    sennit_recv(&received, 1, f32, (rank + kRanks - 1) % kRanks, comm, nullptr, nullptr);
    std::ranges::fill(counts, 1'000'000);
    std::ranges::fill(parts, 1'000'000);
    std::ranges::fill(places, 1'000'000);
    ok(sennit_group_end() == SENNIT_OK, "group_end");
  }
  ok(sennit_work_wait(work, -1) == SENNIT_OK, "work_wait");
  sennit_work_destroy(work);
  std::size_t at = 0;
  for (int source = 0; source < kRanks; ++source) {
    for (int i = 0; i < source + rank; ++i) {
      ok(exchanged[at++] == static_cast<float>(10 * source + rank), "exchanged");
    }
  }
  ok(gathered[0] == 1 && gathered[1] == 0, "gathered");
  ok(received == static_cast<float>((rank + kRanks - 1) % kRanks), "received");
  sennit_comm_destroy(comm);
  return report;
}

TEST(VectorCalls, GoIntoGroupsAndReadTheirCountsAtOnce) {
  const std::string name = fresh_name();
  RankProcesses ranks(kRanks, [&](int rank) { return group_of_vector_calls(name, rank); });
  for (const auto& report : ranks.reports()) {
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_OK) << report->message;
  }
}

// ---- Arguments that are wrong by themselves ----

class VectorArguments : public testing::Test {
 protected:
  VectorArguments() : comm_(join_ranks(fresh_name(), 1, 0)), buffer_(64) {}
  ~VectorArguments() override { sennit_comm_destroy(comm_); }

  sennit_status_t exchange(const std::vector<std::size_t>& to,
                           const std::vector<std::size_t>& from,
                           std::size_t recv_at) {
    return sennit_all_to_all_v(buffer_.data(),
                               to.data(),
                               nullptr,
                               buffer_.data() + recv_at,
                               from.data(),
                               nullptr,
                               SENNIT_FLOAT32,
                               comm_,
                               nullptr,
                               nullptr);
  }

  static std::string why() { return sennit_last_error_message(); }

  sennit_comm_t comm_;
  std::vector<float> buffer_;
};

TEST_F(VectorArguments, ARankMustAgreeWithItself) {
  EXPECT_EQ(exchange({4}, {5}, 32), SENNIT_INVALID_ARGUMENT);
  EXPECT_EQ(why(), "rank 0 sends 4 elements to itself, but expects 5");
  EXPECT_EQ(exchange({4}, {4}, 32), SENNIT_OK) << "a refused call harms nothing";
}

TEST_F(VectorArguments, AllToAllVIsNeverInPlace) {
  EXPECT_EQ(exchange({4}, {4}, 0), SENNIT_INVALID_ARGUMENT);
  EXPECT_NE(why().find("send and recv of all_to_all_v overlap"), std::string::npos);
  EXPECT_EQ(exchange({4}, {4}, 3), SENNIT_INVALID_ARGUMENT);
  EXPECT_EQ(exchange({4}, {4}, 4), SENNIT_OK);
}

TEST_F(VectorArguments, CountsMustBeThereAndInRange) {
  EXPECT_EQ(sennit_all_gather_v(buffer_.data(),
                                1,
                                buffer_.data() + 1,
                                nullptr,
                                nullptr,
                                SENNIT_FLOAT32,
                                comm_,
                                nullptr,
                                nullptr),
            SENNIT_INVALID_ARGUMENT);
  EXPECT_EQ(why(), "the counts are NULL");
  EXPECT_EQ(exchange({SIZE_MAX}, {SIZE_MAX}, 32), SENNIT_INVALID_ARGUMENT);
  EXPECT_NE(why().find("is out of range"), std::string::npos);
}

TEST_F(VectorArguments, OneRankRunsEvenWhatPassesBlocksOn) {
  sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
  options.algorithm = "binomial";
  const std::vector<std::size_t> counts{1};
  EXPECT_EQ(sennit_gather_v(buffer_.data(),
                            1,
                            buffer_.data() + 1,
                            counts.data(),
                            nullptr,
                            SENNIT_FLOAT32,
                            0,
                            comm_,
                            nullptr,
                            &options),
            SENNIT_OK)
      << "one rank has nobody to pass blocks on to";
}

TEST(VectorCalls, BlocksThatOverlapAndAlgorithmsThatPassBlocksOnAreRefused) {
  const std::string name = fresh_name();
  RankProcesses ranks(kRanks, [&](int rank) {
    const sennit_comm_t comm = join_ranks(name, kRanks, rank);
    const float mine = 1;
    std::vector<float> out(16);
    const std::vector<std::size_t> counts(kRanks, 2);
    const std::vector<std::size_t> places{0, 2, 3, 8};
    const std::vector<float> pair(2, 1.0F);
    const sennit_status_t overlapping = sennit_all_gather_v(pair.data(),
                                                            2,
                                                            out.data(),
                                                            counts.data(),
                                                            places.data(),
                                                            SENNIT_FLOAT32,
                                                            comm,
                                                            nullptr,
                                                            nullptr);
    const std::string why = sennit_last_error_message();
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.algorithm = "binomial";
    const std::vector<std::size_t> ones(kRanks, 1);
    Report report = report_of([&] {
      return sennit_gather_v(
          &mine, 1, out.data(), ones.data(), nullptr, SENNIT_FLOAT32, 0, comm, nullptr, &options);
    });
    const bool is_refused = overlapping == SENNIT_INVALID_ARGUMENT &&
                            why == "blocks of the recv buffer of all_gather_v overlap";
    report.value = is_refused && sennit_barrier(comm, nullptr, nullptr) == SENNIT_OK ? 1 : 0;
    sennit_comm_destroy(comm);
    return report;
  });
  for (const auto& report : ranks.reports()) {
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_UNSUPPORTED) << report->message;
    EXPECT_NE(std::string(report->message)
                  .find("gather binomial cannot run where the lengths of blocks vary"),
              std::string::npos)
        << report->message;
    EXPECT_EQ(report->value, 1);
  }
}

}  // namespace
}  // namespace sennit::tests
