#include "several_nodes.hpp"

#include "sennit/tools.h"

#include <cstdlib>
#include <string>
#include <string_view>

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

}  // namespace

ncclResult_t decide_about_nodes(ncclComm_t comm) {
  if (comm->is_decided.exchange(true)) {
    return ncclSuccess;
  }
  int nodes = 1;
  const ncclResult_t asked = result_of(sennit_tool_nodes(comm->comm, &nodes));
  if (asked != ncclSuccess || nodes < 2) {
    return asked;
  }
  const Maker maker = requested_maker(comm);
  // Also by a rank that does not request it: the others wait for it.
  const ncclResult_t sought = seek_companion(comm, maker == Maker::kNvidia);
  if (maker == Maker::kUnknown) {
    return refuse(ncclInvalidArgument,
                  std::string("SENNIT_NCCL_NODES='") + std::getenv("SENNIT_NCCL_NODES") +
                      "' is not allowed; allowed: nvidia, sennit");
  }
  comm->is_passed_on = sought == ncclSuccess && comm->companion != nullptr;
  const std::string what =
      comm->is_passed_on
          ? "the ranks are on " + std::to_string(nodes) + " nodes: NCCL " +
                version_text(fallback().version) + " (" + fallback().path + ") makes their calls"
          : "the ranks are on " + std::to_string(nodes) +
                " nodes, and Sennit makes their calls: " + comm->why_no_companion;
  sennit_tool_log("nccl", what.c_str());
  return sought;
}

}  // namespace sennit_nccl
