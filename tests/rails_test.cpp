// Ranks on several nodes: all calls over rails, by the real UCX over the loopback interface. The
// nodes are virtual ones of this machine (SENNIT_NODE).
#include "rails_fixture.hpp"
#include "rank_processes.hpp"

#include "sennit/tools.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace sennit::tests {
namespace {

using Floats = std::vector<float>;

class Rails : public RailsFixture, public testing::WithParamInterface<const char*> {};

float element(int rank, std::size_t index) {
  return static_cast<float>(rank * 1000 + static_cast<int>(index % 997));
}

// One rank's calls, each checked against a closed formula; the first that is wrong is reported.
class Calls {
 public:
  Calls(sennit_comm_t comm, int rank, int ranks, const sennit_call_options_t* options = nullptr)
      : comm_(comm), rank_(rank), ranks_(ranks), options_(options) {}

  void all(std::size_t count) {
    count_ = count;
    const Floats mine = values(rank_);
    Floats out(count);
    ok(sennit_all_reduce(
           mine.data(), out.data(), count, SENNIT_FLOAT32, SENNIT_SUM, comm_, nullptr, options_),
       "all_reduce");
    check(out, [&](std::size_t i) { return sum(i); }, "all_reduce");
    out = mine;
    ok(sennit_all_reduce(
           out.data(), out.data(), count, SENNIT_FLOAT32, SENNIT_SUM, comm_, nullptr, options_),
       "all_reduce in place");
    check(out, [&](std::size_t i) { return sum(i); }, "all_reduce in place");
    Floats many(count * size());
    ok(sennit_all_gather(mine.data(), many.data(), count, SENNIT_FLOAT32, comm_, nullptr, options_),
       "all_gather");
    check(many, [&](std::size_t i) { return element(block(i), i % count_); }, "all_gather");
    // Block b of rank r is that of rank r * ranks + b.
    for (int b = 0; b < ranks_; ++b) {
      for (std::size_t i = 0; i < count; ++i) {
        many[static_cast<std::size_t>(b) * count + i] = element(rank_ * ranks_ + b, i);
      }
    }
    Floats exchanged(many.size());
    ok(sennit_all_to_all(
           many.data(), exchanged.data(), count, SENNIT_FLOAT32, comm_, nullptr, options_),
       "all_to_all");
    check(
        exchanged,
        [&](std::size_t i) { return element(block(i) * ranks_ + rank_, i % count_); },
        "all_to_all");
    ok(sennit_reduce_scatter(
           many.data(), out.data(), count, SENNIT_FLOAT32, SENNIT_MAX, comm_, nullptr, options_),
       "reduce_scatter");
    check(
        out,
        [&](std::size_t i) { return element((ranks_ - 1) * ranks_ + rank_, i); },
        "reduce_scatter");
    for (const int root : {0, ranks_ - 1}) {
      rooted(root, mine);
    }
    ok(sennit_barrier(comm_, nullptr, options_), "barrier");
    exchange(mine);
  }

  [[nodiscard]] const Report& report() const { return report_; }

 private:
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(ranks_); }
  [[nodiscard]] int block(std::size_t i) const { return static_cast<int>(i / count_); }
  [[nodiscard]] Floats values(int rank) const {
    Floats values(count_);
    for (std::size_t i = 0; i < count_; ++i) {
      values[i] = element(rank, i);
    }
    return values;
  }
  [[nodiscard]] float sum(std::size_t i) const {
    float total = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      total += element(rank, i);
    }
    return total;
  }

  void rooted(int root, const Floats& mine) {
    Floats out = mine;
    ok(sennit_broadcast(
           out.data(), out.data(), count_, SENNIT_FLOAT32, root, comm_, nullptr, options_),
       "broadcast");
    check(out, [&](std::size_t i) { return element(root, i); }, "broadcast");
    ok(sennit_reduce(mine.data(),
                     out.data(),
                     count_,
                     SENNIT_FLOAT32,
                     SENNIT_SUM,
                     root,
                     comm_,
                     nullptr,
                     options_),
       "reduce");
    if (rank_ == root) {
      check(out, [&](std::size_t i) { return sum(i); }, "reduce");
    }
    Floats many(count_ * size());
    ok(sennit_gather(
           mine.data(), many.data(), count_, SENNIT_FLOAT32, root, comm_, nullptr, options_),
       "gather");
    if (rank_ == root) {
      check(many, [&](std::size_t i) { return element(block(i), i % count_); }, "gather");
    }
    ok(sennit_scatter(
           many.data(), out.data(), count_, SENNIT_FLOAT32, root, comm_, nullptr, options_),
       "scatter");
    check(out, [&](std::size_t i) { return element(rank_, i); }, "scatter");
  }

  // Around the ring of all ranks.
  void exchange(const Floats& mine) {
    Floats theirs(count_);
    const int from = (rank_ + ranks_ - 1) % ranks_;
    sennit_group_start();
    sennit_send(
        mine.data(), count_, SENNIT_FLOAT32, (rank_ + 1) % ranks_, comm_, nullptr, options_);
    sennit_recv(theirs.data(), count_, SENNIT_FLOAT32, from, comm_, nullptr, options_);
    ok(sennit_group_end(), "send and recv");
    check(theirs, [&](std::size_t i) { return element(from, i); }, "send and recv");
  }

  void ok(sennit_status_t status, const char* what) {
    if (status != SENNIT_OK && report_.status == SENNIT_OK) {
      report_.status = status;
      std::snprintf(report_.message,
                    sizeof(report_.message),
                    "%s of %zu: %s",
                    what,
                    count_,
                    sennit_last_error_message());
    }
  }
  template <typename Expected>
  void check(const Floats& got, Expected expected, const char* what) {
    for (std::size_t i = 0; i < got.size() && report_.status == SENNIT_OK; ++i) {
      if (got[i] != expected(i)) {
        report_.status = SENNIT_INTERNAL_ERROR;
        std::snprintf(report_.message,
                      sizeof(report_.message),
                      "%s of %zu: element %zu of rank %d is %g, not %g",
                      what,
                      count_,
                      i,
                      rank_,
                      static_cast<double>(got[i]),
                      static_cast<double>(expected(i)));
      }
    }
  }

  sennit_comm_t comm_;
  int rank_;
  int ranks_;
  const sennit_call_options_t* options_;
  std::size_t count_ = 0;
  Report report_{.status = SENNIT_OK};
};

TEST_P(Rails, CarryAllCollectivesAndMessages) {
  const std::string name = fresh_name();
  const std::string nodes = GetParam();
  const int count = static_cast<int>(nodes.size());
  RankProcesses ranks(count, [&](int rank) {
    const sennit_comm_t comm = join_on(name, nodes, rank);
    Calls calls(comm, rank, count);
    for (const std::size_t elements : {1, 13, 1000, 100'003}) {
      calls.all(elements);
    }
    const Report report = calls.report();
    sennit_comm_destroy(comm);
    return report;
  });
  for (const auto& report : ranks.reports()) {
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_OK) << report->message;
  }
}

INSTANTIATE_TEST_SUITE_P(Nodes, Rails, testing::Values("ab", "aabb", "aaab", "abc", "abab"));

// Rank 1 has two cards, and those of its node and of the other node one each.
TEST_F(Rails, OneWithOtherCardsIsNamedByAllRanksAtOnce) {
  const std::string name = fresh_name();
  RankProcesses ranks(4, [&](int rank) {
    go_to_node("aabb", rank);
    if (rank == 1) {
      ::setenv("SENNIT_RAILS", "lo,lo", 1);
    }
    sennit_unique_id_t id;
    sennit_comm_t comm = nullptr;
    const Report report = report_of([&] {
      const sennit_status_t status = sennit_unique_id_from_text(&id, name.c_str());
      return status == SENNIT_OK ? sennit_comm_init_rank(&comm, 4, &id, rank, nullptr) : status;
    });
    sennit_comm_destroy(comm);
    return report;
  });
  for (const auto& report : ranks.reports()) {
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_INVALID_ARGUMENT) << report->message;
    EXPECT_NE(std::string(report->message).find("rank 1 has 2 network cards, rank 0 has 1"),
              std::string::npos)
        << report->message;
    EXPECT_LT(report->ended_at - report->called_at, 5.0);
  }
}

TEST_F(Rails, APathOfOneNodeIsRefusedByNameWhereACallCrossesNodes) {
  const std::string name = fresh_name();
  RankProcesses ranks(2, [&](int rank) {
    const sennit_comm_t comm = join_on(name, "ab", rank);
    Report report{.status = SENNIT_OK};
    for (const auto& [path, reason] :
         {std::pair("cma", "path cma joins ranks of one node"),
          std::pair("shm+cma", "path shm+cma joins ranks of one node")}) {
      sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
      options.algorithm = "direct";
      options.path = path;
      const float one = 1;
      Floats both(2);
      const Report said = report_of([&] {
        return sennit_all_gather(&one, both.data(), 1, SENNIT_FLOAT32, comm, nullptr, &options);
      });
      const std::string message = said.message;
      // A machine that forbids CMA says that first.
      const bool is_forbidden = message.find("is not available") != std::string::npos;
      if (said.status != SENNIT_UNSUPPORTED ||
          (message.find(reason) == std::string::npos && !is_forbidden)) {
        report = said;
        report.status = SENNIT_INTERNAL_ERROR;
      }
    }
    sennit_comm_destroy(comm);
    return report;
  });
  for (const auto& report : ranks.reports()) {
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_OK) << report->message;
  }
}

std::string paths_of_last_call(sennit_comm_t comm) {
  char* answer = nullptr;
  const sennit_status_t status = sennit_tool_last_plan(comm, &answer);
  std::string text = status == SENNIT_OK ? answer : sennit_last_error_message();
  sennit_tool_free(answer);
  text.erase(std::min(text.find(']'), text.size()));
  return text.substr(std::min(text.find("\"paths\""), text.size()));
}

// One rank a node takes all cards that its user named, of two ranks each its own.
TEST_F(Rails, LargeMessagesTakeAllCardsThatNoOtherRankOfTheNodeHas) {
  for (const auto& [nodes, takes_all] : {std::pair("ab", true), std::pair("aabb", false)}) {
    const std::string name = fresh_name();
    const int count = static_cast<int>(std::string_view(nodes).size());
    RankProcesses ranks(count, [&, nodes = nodes, takes_all = takes_all](int rank) {
      go_to_node(nodes, rank);
      ::setenv("SENNIT_RAILS", "lo,lo", 1);
      const sennit_comm_t comm = join_ranks(name, count, rank);
      Calls calls(comm, rank, count);
      for (const std::size_t elements : {1, 1000, 100'003}) {
        calls.all(elements);
        Report report = calls.report();
        const Floats mine(elements);
        Floats all(elements * static_cast<std::size_t>(count));
        sennit_all_gather(
            mine.data(), all.data(), elements, SENNIT_FLOAT32, comm, nullptr, nullptr);
        const std::string paths = paths_of_last_call(comm);
        const bool took_all =
            paths.find("rail/0") != std::string::npos && paths.find("rail/1") != std::string::npos;
        if (report.status == SENNIT_OK && took_all != (takes_all && elements > 100'000)) {
          report.status = SENNIT_INTERNAL_ERROR;
          std::snprintf(report.message, sizeof(report.message), "%zu: %s", elements, paths.c_str());
        }
        if (report.status != SENNIT_OK) {
          sennit_comm_destroy(comm);
          return report;
        }
      }
      sennit_comm_destroy(comm);
      return calls.report();
    });
    for (const auto& report : ranks.reports()) {
      ASSERT_TRUE(report);
      EXPECT_EQ(report->status, SENNIT_OK) << nodes << ": " << report->message;
    }
  }
}

TEST_F(Rails, ACallTakesTheCardsThatItsPathNames) {
  for (const char* const path : {"rail/1", "rail/1+rail/0"}) {
    const std::string name = fresh_name();
    RankProcesses ranks(4, [&](int rank) {
      go_to_node("aabb", rank);
      ::setenv("SENNIT_RAILS", "lo,lo", 1);
      const sennit_comm_t comm = join_ranks(name, 4, rank);
      sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
      options.path = path;
      const Floats mine(50'003, static_cast<float>(rank));
      Floats all(4 * mine.size());
      Report report{.status = SENNIT_OK};
      for (int call = 0; call < 3 && report.status == SENNIT_OK; ++call) {
        report = report_of([&] {
          return sennit_all_gather(
              mine.data(), all.data(), mine.size(), SENNIT_FLOAT32, comm, nullptr, &options);
        });
        for (std::size_t i = 0; i < all.size() && report.status == SENNIT_OK; ++i) {
          const std::size_t source = i / mine.size();
          report.value += all[i] == static_cast<float>(source) ? 0 : 1;
        }
      }
      const std::string paths = paths_of_last_call(comm);
      report.value += paths.find("rail/1") == std::string::npos ? 1 : 0;
      report.value += (paths.find("rail/0") == std::string::npos) ==
                              (std::string_view(path).find("rail/0") == std::string_view::npos)
                          ? 0
                          : 1;
      sennit_comm_destroy(comm);
      return report;
    });
    for (const auto& report : ranks.reports()) {
      ASSERT_TRUE(report);
      EXPECT_EQ(report->status, SENNIT_OK) << report->message;
      EXPECT_EQ(report->value, 0) << path;
    }
  }
}

TEST_F(Rails, CardsThatAreNotThereAreRefusedByName) {
  const std::string name = fresh_name();
  RankProcesses ranks(2, [&](int rank) {
    go_to_node("ab", rank);
    ::setenv("SENNIT_RAILS", "lo,lo", 1);
    const sennit_comm_t comm = join_ranks(name, 2, rank);
    Report report{.status = SENNIT_OK};
    for (const auto& [path, reason] :
         {std::pair("rail/2", "there is no rail/2: each node has 2 network cards"),
          std::pair("rail/0+rail/0", "each once"),
          std::pair("rail", "with their numbers"),
          std::pair("rail/0+shm", "has to name")}) {
      sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
      options.path = path;
      const float one = 1;
      Floats both(2);
      const Report said = report_of([&] {
        return sennit_all_gather(&one, both.data(), 1, SENNIT_FLOAT32, comm, nullptr, &options);
      });
      if (said.status == SENNIT_OK || std::string(said.message).find(reason) == std::string::npos) {
        report = said;
        report.status = SENNIT_INTERNAL_ERROR;
      }
    }
    sennit_comm_destroy(comm);
    return report;
  });
  for (const auto& report : ranks.reports()) {
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_OK) << report->message;
  }
}

// Two communicators of one thread share its cards.
TEST_F(Rails, CommunicatorsOfOneThreadGoOnTogether) {
  const std::string name = fresh_name();
  RankProcesses ranks(4, [&](int rank) {
    const sennit_comm_t comm = join_on(name, "aabb", rank);
    sennit_comm_t half = nullptr;
    // Rank 0 with rank 2, 1 with 3: each on another node.
    Report report =
        report_of([&] { return sennit_comm_split(comm, rank % 2, rank, &half, nullptr); });
    if (report.status == SENNIT_OK) {
      Calls large(comm, rank, 4);
      Calls small(half, rank / 2, 2);
      for (int round = 0; round < 5; ++round) {
        small.all(100);
        large.all(20'000);
      }
      report = small.report().status != SENNIT_OK ? small.report() : large.report();
    }
    sennit_comm_destroy(half);
    sennit_comm_destroy(comm);
    return report;
  });
  for (const auto& report : ranks.reports()) {
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_OK) << report->message;
  }
}

// UCX has one for each of its workers, and some more.
int event_polls() {
  const std::filesystem::directory_iterator folder("/proc/self/fd");
  return static_cast<int>(std::count_if(begin(folder), end(folder), [](const auto& entry) {
    std::error_code closed;
    return std::filesystem::read_symlink(entry, closed) == "anon_inode:[eventpoll]";
  }));
}

sennit_comm_t join_in_background(const std::string& name, int ranks, int rank) {
  sennit_unique_id_t id;
  sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
  config.non_blocking = 1;
  sennit_comm_t comm = nullptr;
  sennit_unique_id_from_text(&id, name.c_str());
  sennit_status_t state = sennit_comm_init_rank(&comm, ranks, &id, rank, &config);
  while (state == SENNIT_IN_PROGRESS) {
    sleep_s(0.001);
    sennit_comm_async_error(comm, &state);
  }
  return comm;
}

TEST_F(Rails, CommunicatorsMadeInTheBackgroundShareTheCardsOfTheirThread) {
  constexpr int kComms = 4;
  const std::string name = fresh_name();
  RankProcesses ranks(2, [&](int rank) {
    go_to_node("ab", rank);
    Report report{.status = SENNIT_OK};
    std::vector<sennit_comm_t> comms;
    int polls_of_one = 0;
    for (int index = 0; index < kComms && report.status == SENNIT_OK; ++index) {
      comms.push_back(join_in_background(name + std::to_string(index), 2, rank));
      Calls calls(comms.back(), rank, 2);
      calls.all(1000);
      report = calls.report();
      polls_of_one = index == 0 ? event_polls() : polls_of_one;
    }
    report.value = event_polls() - polls_of_one;
    for (const sennit_comm_t comm : comms) {
      sennit_comm_destroy(comm);
    }
    return report;
  });
  for (const auto& report : ranks.reports()) {
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_OK) << report->message;
    EXPECT_EQ(report->value, 0);
  }
}

}  // namespace
}  // namespace sennit::tests
