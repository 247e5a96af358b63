// A picture of a topology, as SVG that needs nothing else.
#pragma once

#include "machine/topology.hpp"

#include <string>

namespace sennit {

// One node: a row for each kind of vertex, a line for each link. Kinds of links differ by dash and
// width as well as colour; the legend gives their bandwidths.
std::string topology_svg(const Topology& topology);

}  // namespace sennit
