// Ranks on several nodes, through the C ABI. The nodes are virtual ones of this machine
// (SENNIT_NODE), and rank 0 listens on the loopback address.
#include "leaves_nothing.hpp"
#include "rank_processes.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

namespace sennit::tests {
namespace {

class NodesCalls : public LeavesNothing {};

// In a child: rank r of the node that nodes[r] names.
sennit_comm_t join_on(const std::string& name, const std::string& nodes, int rank) {
  ::setenv("SENNIT_ROOT", "127.0.0.1", 1);
  ::setenv("SENNIT_NODE", nodes.substr(static_cast<std::size_t>(rank), 1).c_str(), 1);
  return join_ranks(name, static_cast<int>(nodes.size()), rank);
}

sennit_status_t all_reduce_ones(sennit_comm_t comm, float* sum) {
  const float one = 1;
  return sennit_all_reduce(&one, sum, 1, SENNIT_FLOAT32, SENNIT_SUM, comm, nullptr, nullptr);
}

TEST_F(NodesCalls, ACallThatCrossesNodesIsRefusedOnAllRanksByNameWhereThereIsNoUcx) {
  const std::string name = fresh_name();
  RankProcesses ranks(4, [&](int rank) {
    ::setenv("SENNIT_UCX_LIB", "/nonexistent/libucp.so.0", 1);
    const sennit_comm_t comm = join_on(name, "aabb", rank);
    float sum = 0;
    const Report report = report_of([&] { return all_reduce_ones(comm, &sum); });
    sennit_comm_destroy(comm);
    return report;
  });
  for (const auto& report : ranks.reports()) {
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_UNSUPPORTED) << report->message;
    EXPECT_NE(std::string(report->message).find("no path joins nodes"), std::string::npos)
        << report->message;
  }
}

TEST_F(NodesCalls, TagsAreForRanksOfOneNode) {
  const std::string name = fresh_name();
  RankProcesses ranks(4, [&](int rank) {
    const sennit_comm_t comm = join_on(name, "aabb", rank);
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.tag = 3;
    float value = 0;
    const auto recv = [&](int peer) {
      return sennit_recv(&value, 1, SENNIT_FLOAT32, peer, comm, nullptr, &options);
    };
    const auto send = [&](int peer) {
      return sennit_send(&value, 1, SENNIT_FLOAT32, peer, comm, nullptr, &options);
    };
    const bool is_within = (rank % 2 == 0 ? send(rank + 1) : recv(rank - 1)) == SENNIT_OK;
    const bool is_refused = send((rank + 2) % 4) == SENNIT_UNSUPPORTED;
    const Report report = report_of([&] { return recv(SENNIT_ANY_RANK); });
    sennit_comm_destroy(comm);
    return is_within && is_refused ? report : Report();
  });
  for (const auto& report : ranks.reports()) {
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_UNSUPPORTED) << report->message;
    EXPECT_NE(std::string(report->message).find("here are several nodes"), std::string::npos)
        << report->message;
  }
}

TEST_F(NodesCalls, MessagesWithinANodeGoOnWithoutUcx) {
  const std::string name = fresh_name();
  RankProcesses ranks(4, [&](int rank) {
    ::setenv("SENNIT_UCX_LIB", "/nonexistent/libucp.so.0", 1);
    const sennit_comm_t comm = join_on(name, "aabb", rank);
    auto value = static_cast<float>(rank);
    const bool is_sender = rank % 2 == 0;
    Report report = report_of([&] {
      return is_sender ? sennit_send(&value, 1, SENNIT_FLOAT32, rank + 1, comm, nullptr, nullptr)
                       : sennit_recv(&value, 1, SENNIT_FLOAT32, rank - 1, comm, nullptr, nullptr);
    });
    report.value = static_cast<double>(value);
    sennit_comm_destroy(comm);
    return report;
  });
  const auto reports = ranks.reports();
  for (std::size_t rank = 0; rank < 4; ++rank) {
    ASSERT_TRUE(reports[rank]);
    EXPECT_EQ(reports[rank]->status, SENNIT_OK) << reports[rank]->message;
    EXPECT_EQ(reports[rank]->value, static_cast<double>(rank - rank % 2));
  }
}

TEST_F(NodesCalls, RanksOfOneNodeCallEverything) {
  const std::string name = fresh_name();
  RankProcesses ranks(3, [&](int rank) {
    const sennit_comm_t comm = join_on(name, "aaa", rank);
    float sum = 0;
    Report report = report_of([&] { return all_reduce_ones(comm, &sum); });
    report.value = static_cast<double>(sum);
    sennit_comm_destroy(comm);
    return report;
  });
  for (const auto& report : ranks.reports()) {
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_OK) << report->message;
    EXPECT_EQ(report->value, 3);
  }
}

int size_of(sennit_comm_t comm) {
  int size = -1;
  sennit_comm_size(comm, &size);
  return size;
}

// Replaces the communicator by one without `excluded` and those that are dead.
Report shrink(sennit_comm_t& comm, const std::vector<int>& excluded) {
  sennit_comm_t smaller = nullptr;
  Report report = report_of([&] {
    return sennit_comm_shrink(
        comm, excluded.data(), static_cast<int>(excluded.size()), &smaller, nullptr);
  });
  sennit_comm_destroy(comm);
  comm = smaller;
  report.value = size_of(comm);
  return report;
}

TEST_F(NodesCalls, SurvivorsOfSeveralNodesShrink) {
  for (const int victim : {3, 2, 0}) {  // the second is the lowest of its node
    SCOPED_TRACE("victim " + std::to_string(victim));
    const std::string name = fresh_name();
    RankProcesses ranks(4, [&](int rank) {
      sennit_comm_t comm = join_on(name, "aabb", rank);
      RankProcesses::arrive();
      if (rank == victim) {
        ::pause();
      }
      const Report report = shrink(comm, {});
      sennit_comm_destroy(comm);
      return report;
    });
    ranks.await_arrivals(4);  // a death while others join is another matter
    ranks.signal(victim, SIGKILL);
    const auto reports = ranks.reports();
    for (int rank = 0; rank < 4; ++rank) {
      const auto& report = reports[static_cast<std::size_t>(rank)];
      ASSERT_EQ(report.has_value(), rank != victim);
      if (report) {
        EXPECT_EQ(report->status, SENNIT_OK) << report->message;
        EXPECT_EQ(report->value, 3);
        EXPECT_LT(report->ended_at - report->called_at, 5.0);
      }
    }
  }
}

// The new rank 0 is on another node than the old one.
TEST_F(NodesCalls, RanksThatGoOnWithoutTheFirstNodeFindEachOther) {
  const std::string name = fresh_name();
  RankProcesses ranks(5, [&](int rank) {
    sennit_comm_t comm = join_on(name, "aabbc", rank);
    Report report{.status = SENNIT_OK};
    if (rank >= 2) {
      report = shrink(comm, {0, 1});
    }
    sennit_comm_destroy(comm);
    return report;
  });
  const auto reports = ranks.reports();
  for (std::size_t rank = 0; rank < 5; ++rank) {
    ASSERT_TRUE(reports[rank]);
    EXPECT_EQ(reports[rank]->status, SENNIT_OK) << reports[rank]->message;
    EXPECT_EQ(reports[rank]->value, rank >= 2 ? 3 : 0);
  }
}

TEST_F(NodesCalls, RanksOfOneNodeThatGoOnAloneCallEverything) {
  const std::string name = fresh_name();
  RankProcesses ranks(4, [&](int rank) {
    sennit_comm_t comm = join_on(name, "abba", rank);
    const bool is_first = rank == 0 || rank == 3;
    Report report = shrink(comm, is_first ? std::vector{1, 2} : std::vector{0, 3});
    if (report.status == SENNIT_OK) {
      float sum = 0;
      report = report_of([&] { return all_reduce_ones(comm, &sum); });
      report.value = static_cast<double>(sum);
    }
    sennit_comm_destroy(comm);
    return report;
  });
  for (const auto& report : ranks.reports()) {
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_OK) << report->message;
    EXPECT_EQ(report->value, 2);
  }
}

}  // namespace
}  // namespace sennit::tests
