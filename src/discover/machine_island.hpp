// Where a GPU of this machine stands in a description of it (docs/machines.md).
#pragma once

#include "base/status.hpp"
#include "drivers/nvml/nvml.hpp"
#include "machine/topology.hpp"

#include <string>

namespace sennit {

// `machine`: a name of the catalogue, or else a file. kInvalidArgument where it is neither, or the
// file is malformed.
Result<Topology> load_machine(const std::string& machine);

// The island (Topology::islands) of the GPU with this PCI address: gpu0 is the first of all GPUs
// here in the order of their addresses, whatever CUDA_VISIBLE_DEVICES says. kInvalidArgument where
// the machine does not describe as many GPUs.
Result<int> island_of(const Topology& machine, NvmlDriver& nvml, const std::string& pci_bus_id);

}  // namespace sennit
