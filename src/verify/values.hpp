// The value proof: runs one tile on symbols instead of numbers and compares what the output blocks
// hold with what the problem wants.
#pragma once

#include "cells.hpp"
#include "checks.hpp"
#include "expressions.hpp"
#include "graph.hpp"

#include "schedule/scaling.hpp"

#include <vector>

namespace sennit {

struct ValueProof {
  ScaledParts scaled;         // what every output block was scaled in, exactly once
  bool reproducible = false;  // all outputs have the canonical expression tree
  // What the ranks sent each other, message after message: when sent and, if exposed, when read.
  // Comparable between proofs with the same `order` and `expressions`.
  std::vector<int> messages;
  // The expression tree of every output block, rank after rank. Comparable between proofs with the
  // same `expressions`.
  std::vector<int> outputs;
};

// kNotProved when the outputs are wrong. The memory events of a step follow the protocols:
// direct_get reads the source when the recipient runs, direct_put writes the destination when the
// sender runs.
Result<ValueProof> check_values(const Graph& graph,
                                const Order& order,
                                const Cells& cells,
                                const Checks& checks,
                                Expressions& expressions);

}  // namespace sennit
