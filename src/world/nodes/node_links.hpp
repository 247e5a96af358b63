// NodeLinks: the connections between the lowest ranks of the nodes, in a star around rank 0's.
#pragma once

#include "world/nodes/node_link.hpp"

#include <memory>
#include <vector>

namespace sennit {

struct NodeLinks {
  // By node. On node 0 all but its own; on the others that to node 0 alone.
  std::vector<std::unique_ptr<NodeLink>> to_node;
};

}  // namespace sennit
