// The machines that Sennit knows by name: those of the papers it builds on, and some of today.
#pragma once

#include "machine/topology.hpp"

#include <span>
#include <string_view>

namespace sennit {

struct CatalogueEntry {
  std::string_view name;
  std::string_view text;  // as in catalogue/<name>.machine
};

std::span<const CatalogueEntry> catalogue();

// A failure lists the names there are.
Result<Topology> find_machine(std::string_view name);

}  // namespace sennit
