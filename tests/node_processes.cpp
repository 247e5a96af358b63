#include "node_processes.hpp"

#include "rank_processes.hpp"

#include "drivers/ucx/ucx.hpp"

#include <cstdio>
#include <cstdlib>

namespace sennit::tests {
namespace {

// Not in this process: a child of it could not use UCX any more.
std::string ask_a_child() {
  RankProcesses child(1, [](int) {
    const auto driver = ucx_driver();
    Report report{.status = SENNIT_OK};
    if (!driver.ok()) {
      std::snprintf(
          report.message, sizeof(report.message), "%s", driver.status().message().c_str());
      report.status = SENNIT_UNSUPPORTED;
    }
    return report;
  });
  const auto reports = child.reports();
  return !reports[0] ? "it cannot be opened" : reports[0]->message;
}

}  // namespace

const std::string& why_no_ucx() {
  static const std::string kWhyNot = ask_a_child();
  return kWhyNot;
}

void go_to_node(std::string_view nodes, int rank) {
  const std::string node(nodes.substr(static_cast<std::size_t>(rank), 1));
  ::setenv("SENNIT_ROOT", "127.0.0.1", 1);
  ::setenv("SENNIT_RAILS", "lo", 1);
  ::setenv("UCX_MEM_EVENTS", "n", 1);  // it would replace functions that sanitizers have
  ::setenv("SENNIT_NODE", node.c_str(), 1);
}

sennit_comm_t join_on(const std::string& name, std::string_view nodes, int rank) {
  go_to_node(nodes, rank);
  return join_ranks(name, static_cast<int>(nodes.size()), rank);
}

}  // namespace sennit::tests
