#include "discover/machine_island.hpp"

#include "base/text_file.hpp"
#include "machine/catalogue.hpp"

#include <cstddef>
#include <vector>

namespace sennit {

Result<Topology> load_machine(const std::string& machine) {
  Result<Topology> known = find_machine(machine);
  if (known.ok()) {
    return known;
  }
  const Result<std::string> text = read_text_file(machine);
  if (!text.ok()) {
    return fail(Code::kInvalidArgument,
                "SENNIT_MACHINE={} is no file that can be read ({}), and {}",
                machine,
                text.status().message(),
                known.status().message());
  }
  return topology_from_text(*text, machine);
}

Result<int> island_of(const Topology& machine, NvmlDriver& nvml, const std::string& pci_bus_id) {
  SENNIT_ASSIGN_OR_RETURN(const int count, nvml.device_count());
  int index = 0;
  for (; index < count; ++index) {
    SENNIT_ASSIGN_OR_RETURN(const NvmlDevice device, nvml.describe(index));
    if (device.pci_bus_id == pci_bus_id) {
      break;
    }
  }
  if (index == count) {
    return fail(Code::kSystemError, "NVML knows no GPU at {}", pci_bus_id);
  }
  const std::vector<int> devices = machine.devices();
  const bool has_gpus =
      !devices.empty() &&
      machine.vertices[static_cast<std::size_t>(devices.front())].kind == VertexKind::kGpu;
  const std::size_t gpus = has_gpus ? devices.size() : 0;
  if (static_cast<std::size_t>(index) >= gpus) {
    return fail(
        Code::kInvalidArgument,
        "SENNIT_MACHINE: {} has {} GPUs, and this rank's, at {}, is number {} here, counted "
        "from 0; describe as many as there are",
        machine.name,
        gpus,
        pci_bus_id,
        index);
  }
  return machine.islands()[static_cast<std::size_t>(index)];
}

}  // namespace sennit
