// The value proof: runs one tile on symbols instead of numbers and compares what the output blocks
// hold with what the problem wants.
#pragma once

#include "cells.hpp"
#include "checks.hpp"
#include "graph.hpp"

namespace sennit {

// Whether all outputs have the canonical expression tree; kNotProved when they are wrong. The
// memory events of a step follow the protocols: direct_get reads the source when the recipient
// runs, direct_put writes the destination when the sender runs.
Result<bool> check_values(const Graph& graph,
                          const Order& order,
                          const Cells& cells,
                          const Checks& checks);

}  // namespace sennit
