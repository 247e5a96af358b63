#include "several_nodes.hpp"

#include "sennit/tools.h"

#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

namespace sennit_nccl {
namespace {

enum class Maker { kNvidia, kSennit, kUnknown };

// Of host ranks, which stand in for GPUs in tests, only what is said: NCCL cannot have them.
Maker requested_maker(ncclComm_t comm) {
  const char* const variable = std::getenv("SENNIT_NCCL_NODES");
  const std::string_view said = variable != nullptr ? variable : "";
  if (said == "nvidia") {
    return Maker::kNvidia;
  }
  if (said == "sennit") {
    return Maker::kSennit;
  }
  int device = -1;
  sennit_comm_device(comm->comm, &device);
  const Maker usual = device >= 0 ? Maker::kNvidia : Maker::kSennit;
  return said.empty() ? usual : Maker::kUnknown;
}

ncclResult_t decide(ncclComm_t comm, int nodes) {
  const Maker maker = requested_maker(comm);
  // Also by a rank that does not request it: the others wait for it.
  const ncclResult_t sought = seek_companion(comm, maker == Maker::kNvidia);
  if (maker == Maker::kUnknown) {
    return refuse(ncclInvalidArgument,
                  std::string("SENNIT_NCCL_NODES='") + std::getenv("SENNIT_NCCL_NODES") +
                      "' is not allowed; allowed: nvidia, sennit");
  }
  comm->is_passed_on = sought == ncclSuccess && comm->companion != nullptr;
  const std::string reason =
      maker == Maker::kSennit ? "this rank requests it" : comm->why_no_companion;
  const std::string what = "the ranks are on " + std::to_string(nodes) + " nodes, and " +
                           (comm->is_passed_on ? "NCCL " + version_text(fallback().version) + " (" +
                                                     fallback().path + ") makes their calls"
                                               : "Sennit makes their calls: " + reason);
  sennit_tool_log("nccl", what.c_str());
  return sought;
}

}  // namespace

ncclResult_t decide_who_calls(ncclComm_t comm) {
  int nodes = 1;
  ncclResult_t result = result_of(sennit_tool_nodes(comm->comm, &nodes));
  if (result == ncclSuccess && nodes > 1) {
    result = decide(comm, nodes);
  }
  comm->decided = result;
  // Partner: the load in poll_who_calls().
  comm->decision = ncclComm::Decision::kMade;
  return result;
}

ncclResult_t poll_who_calls(ncclComm_t comm) {
  auto none = ncclComm::Decision::kNone;
  if (comm->decision.compare_exchange_strong(none, ncclComm::Decision::kUnderWay)) {
    int nodes = 1;
    if (sennit_tool_nodes(comm->comm, &nodes) == SENNIT_OK && nodes == 1) {
      return decide_who_calls(comm);
    }
    // One thread may poll for several ranks in turn, which wait for each other here. The thread is
    // not joined: what it uses is not freed before.
    std::thread([use = Use(comm)] { decide_who_calls(use.comm()); }).detach();
  }
  return comm->decision == ncclComm::Decision::kMade ? comm->decided : ncclInProgress;
}

}  // namespace sennit_nccl
