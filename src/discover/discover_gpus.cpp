#include "discover/discover_gpus.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <string>
#include <utility>

namespace sennit {
namespace {

namespace fs = std::filesystem;

// 10^9 bytes a second that a lane of PCIe carries each way, by generation, after its line code:
// 8b/10b of 2.5 and 5 GT/s, 128b/130b of 8, 16 and 32, flits of 64.
constexpr std::array kPcieLaneGbps = {0.0, 0.25, 0.5, 0.985, 1.969, 3.938, 7.563};

int numa_node_of(const fs::path& root, const std::string& pci_bus_id) {
  std::ifstream file(root / "sys/bus/pci/devices" / pci_bus_id / "numa_node");
  int node = -1;
  return file >> node ? node : -1;
}

std::string gpu_name(std::size_t index) { return fmt::format("gpu{}", index); }

void add_pcie(const NvmlDevice& device, std::size_t index, Machine& machine) {
  const auto generation = static_cast<std::size_t>(std::max(0, device.pcie_generation));
  if (generation == 0 || generation >= kPcieLaneGbps.size() || device.pcie_lanes <= 0) {
    return;
  }
  machine.links.push_back(
      {.from = gpu_name(index),
       .to = "host",
       .path = PathKind::kHost,
       .bandwidth_gbps = kPcieLaneGbps[generation] * device.pcie_lanes,
       .source = fmt::format("NVML: PCIe {} x{}", device.pcie_generation, device.pcie_lanes)});
}

// What a link leads to: another GPU of this machine, or a switch.
std::string far_end_of(const NvmlLink& link, const Machine& machine) {
  const auto gpu = std::ranges::find(machine.gpus, link.far_pci_bus_id, &Gpu::pci_bus_id);
  if (gpu != machine.gpus.end()) {
    return gpu_name(static_cast<std::size_t>(gpu - machine.gpus.begin()));
  }
  return link.far_end == NvmlLink::FarEnd::kSwitch ? "nvswitch" : "unknown";
}

// Links to one far end carry together what each carries.
void add_nvlinks(const std::vector<NvmlLink>& links, std::size_t index, Machine& machine) {
  struct Bundle {
    int count = 0;
    double gbps = 0;
    std::string version;
  };
  std::map<std::string, Bundle> bundles;
  for (const NvmlLink& link : links) {
    Bundle& bundle = bundles[far_end_of(link, machine)];
    ++bundle.count;
    bundle.gbps += link.gbps;
    bundle.version = link.version;
  }
  for (const auto& [to, bundle] : bundles) {
    machine.links.push_back(
        {.from = gpu_name(index),
         .to = to,
         .path = PathKind::kNvlink,
         .bandwidth_gbps = bundle.gbps,
         .source = fmt::format(
             "NVML: {} x NVLink {}", bundle.count, bundle.version.empty() ? "?" : bundle.version)});
  }
}

}  // namespace

void add_gpus(NvmlDriver& nvml, const fs::path& root, Machine& machine) {
  const Result<int> count = nvml.device_count();
  if (!count.ok()) {
    machine.gpu_note = count.status().message();
    return;
  }
  std::vector<std::pair<int, NvmlDevice>> devices;  // by NVML's index
  for (int index = 0; index < count.value(); ++index) {
    Result<NvmlDevice> device = nvml.describe(index);
    if (!device.ok()) {
      machine.gpu_note = fmt::format("GPU {}: {}", index, device.status().message());
      continue;
    }
    machine.gpus.push_back({.name = device->name,
                            .memory_bytes = device->memory_bytes,
                            .uuid = device->uuid,
                            .pci_bus_id = device->pci_bus_id,
                            .numa_node = numa_node_of(root, device->pci_bus_id),
                            .pcie_generation = device->pcie_generation,
                            .pcie_lanes = device->pcie_lanes});
    devices.emplace_back(index, std::move(device).value());
  }
  for (std::size_t gpu = 0; gpu < devices.size(); ++gpu) {
    add_pcie(devices[gpu].second, gpu, machine);
    if (const auto links = nvml.links(devices[gpu].first); links.ok()) {
      add_nvlinks(links.value(), gpu, machine);
    }
  }
  if (machine.gpus.empty() && machine.gpu_note.empty()) {
    machine.gpu_note = "NVML finds no GPU";
  }
}

PathState device_state(const Machine& machine, const Status& cuda) {
  const bool has_gpu = cuda.ok() && !machine.gpus.empty();
  return {PathKind::kDevice,
          has_gpu,
          !cuda.ok() ? cuda.message()
          : has_gpu  ? "GPU ranks that share a GPU: SENNIT_DEVICE=cuda"
                     : machine.gpu_note};
}

PathState nvlink_state(const Machine& machine, const Status& cuda) {
  if (!cuda.ok()) {
    return {PathKind::kNvlink, false, cuda.message()};
  }
  const bool has_links =
      std::ranges::find(machine.links, PathKind::kNvlink, &Link::path) != machine.links.end();
  return {PathKind::kNvlink,
          has_links,
          has_links ? "GPU ranks: SENNIT_DEVICE=cuda" : "no NVLink of this machine is up"};
}

}  // namespace sennit
