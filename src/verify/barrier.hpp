// What a barrier promises: no rank leaves before every rank has come.
#pragma once

#include "graph.hpp"

namespace sennit {

// kNotProved when some rank can finish while another one has not begun. `order` is complete.
Status check_barrier(const Graph& graph, const Order& order);

}  // namespace sennit
