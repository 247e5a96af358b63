// For tests: rank processes on several nodes. The nodes are virtual ones of this machine
// (SENNIT_NODE), and the real UCX carries messages between them over the loopback interface.
#pragma once

#include "sennit/sennit.h"

#include <string>
#include <string_view>

namespace sennit::tests {

// Why processes of this one cannot have rails; empty: they can. Asked once.
const std::string& why_no_ucx();

// In a child: it becomes rank `rank` of the node that nodes[rank] names.
void go_to_node(std::string_view nodes, int rank);

// In a child: it joins all of these ranks.
sennit_comm_t join_on(const std::string& name, std::string_view nodes, int rank);

}  // namespace sennit::tests
