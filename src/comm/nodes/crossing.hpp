// Crossing: into which calls a call of GPU ranks on several nodes is divided. Some are calls of the
// ranks of one node on their GPUs; those between nodes are calls of host ranks, on host memory.
//
//                   in the node                  between the nodes             in the node
//   all_reduce      reduce_scatter               all_reduce of counterparts    all_gather
//   reduce_scatter  one for each node            reduce_scatter of these
//   all_gather                                   all_gather of these           one for each node
//   broadcast       broadcast, the root's node   broadcast of these            all_gather
//   all_to_all      all_to_all of its blocks     all_to_all of the others, by all ranks
//
// Counterparts are the ranks with the same place in their nodes: each has a part of the data, and
// its own network card. Calls that cannot be divided so go from all ranks to all ranks between
// host memory: other collectives, nodes with unequal numbers of ranks, calls that name an
// algorithm, path or protocol, and sums in rank order.
//
// A pure function of the call and of where the ranks are: all ranks divide a call the same way.
#pragma once

#include "world/operation.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sennit {

// Where the ranks of a communicator are.
struct NodeShape {
  int rank = 0;
  std::vector<int> nodes;  // of each rank

  [[nodiscard]] int ranks() const { return static_cast<int>(nodes.size()); }
  [[nodiscard]] int node() const { return nodes[static_cast<std::size_t>(rank)]; }
  // The ranks of this node, ascending.
  [[nodiscard]] std::vector<int> local() const;
  // Of each node, where all have as many, one node after the other; else 0.
  [[nodiscard]] int ranks_a_node() const;
};

// Elements of device memory; null: they are not copied.
struct DeviceRange {
  std::byte* memory = nullptr;
  std::int64_t elements = 0;
};
// One after the other.
using DeviceBlock = std::vector<DeviceRange>;

// A call of host ranks, whose blocks come from device memory and go there.
struct HostCall {
  Operation operation;  // without buffers and lengths
  bool among_counterparts = false;
  std::vector<DeviceBlock> inputs{};
  std::vector<DeviceBlock> outputs{};
  // Elements of the longest block, and blocks of the rank that has most: the same on all ranks.
  std::int64_t elements = 0;
  int most_blocks = 0;
  // Each block may be cut at the same elements into several calls.
  bool can_be_cut = true;
};

struct Crossing {
  std::vector<HostCall> calls;  // at once
  // Of the ranks of this node, on their GPUs: before these calls, while they are under way, and
  // after them.
  std::vector<Operation> before{};
  std::vector<Operation> meanwhile{};
  std::vector<Operation> after{};
};

// Up to so many bytes an all_reduce or broadcast is not divided among the ranks of a node: two more
// calls on GPUs take longer than the bytes.
inline constexpr std::int64_t kWholeBytes = 64 * 1024;

// `scratch`: device memory of scratch_bytes(). `in_rank_order`: sums have to be.
Crossing cross(const Operation& operation,
               const NodeShape& shape,
               bool in_rank_order,
               std::byte* scratch);
std::size_t scratch_bytes(const Operation& operation, const NodeShape& shape, bool in_rank_order);

// Sends and recvs that were posted together.
Crossing cross_messages(const std::vector<const Operation*>& messages, const NodeShape& shape);

}  // namespace sennit
