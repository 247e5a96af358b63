// The race proof: any two accesses to one cell, one of them a write, are ordered by the graph.
#pragma once

#include "cells.hpp"
#include "graph.hpp"

namespace sennit {

// Accesses of one tile. `graph` is the loosest and `order` its order; `execution` is the order of
// the tightest one, which gives for each pair of accesses the only way round in which they can
// come.
Status check_races(const Graph& graph,
                   const Order& order,
                   const Order& execution,
                   const Cells& cells);

// A step whose `to` overlaps a block that it reads at another place of its lists, or names one
// block twice: whether it works depends on how the step is executed.
Status check_overlaps(const FlatStrand& program, const Cells& cells);

// Accesses of tiles t and t + depth to one scratch instance.
Status check_scratch_reuse(const Graph& graph, const Cells& cells);

}  // namespace sennit
