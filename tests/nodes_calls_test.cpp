// Ranks on several nodes, through the C ABI. The nodes are virtual ones of this machine
// (SENNIT_NODE), and rank 0 listens on the loopback address.
#include "leaves_nothing.hpp"
#include "rank_processes.hpp"

#include <gtest/gtest.h>

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

TEST_F(NodesCalls, MessagesWithinANodeGoOnWithoutUcx) {
  const std::string name = fresh_name();
  RankProcesses ranks(4, [&](int rank) {
    ::setenv("SENNIT_UCX_LIB", "/nonexistent/libucp.so.0", 1);
    const sennit_comm_t comm = join_on(name, "aabb", rank);
    float value = static_cast<float>(rank);
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

}  // namespace
}  // namespace sennit::tests
