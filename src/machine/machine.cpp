#include "machine/machine.hpp"

#include "base/sha256.hpp"

namespace sennit {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

template <typename List, typename Make>
Json list_of(const List& list, Make make) {
  Json result = Json::array();
  for (const auto& item : list) {
    result.push_back(make(item));
  }
  return result;
}

Json numa_form(const NumaNode& node) {
  return {{"index", node.index}, {"cpus", node.cpus}, {"memory_bytes", node.memory_bytes}};
}

Json cache_form(const Cache& cache) {
  return {{"level", cache.level},
          {"type", cache.type},
          {"bytes", cache.bytes},
          {"shared_by", cache.shared_by}};
}

Json gpu_form(const Gpu& gpu) {
  return {{"name", gpu.name},
          {"memory_bytes", gpu.memory_bytes},
          {"uuid", gpu.uuid},
          {"pci_bus_id", gpu.pci_bus_id},
          {"numa_node", gpu.numa_node},
          {"pcie_generation", gpu.pcie_generation},
          {"pcie_lanes", gpu.pcie_lanes}};
}

Json link_form(const Link& link) {
  return {{"from", link.from},
          {"to", link.to},
          {"path", name(link.path)},
          {"bandwidth_gbps", link.bandwidth_gbps},
          {"latency_us", link.latency_us},
          {"source", link.source}};
}

Json path_form(const PathState& path) {
  return {{"name", name(path.kind)}, {"available", path.available}, {"note", path.note}};
}

}  // namespace

std::string fingerprint(const Machine& machine) {
  // Firmware takes a little memory, not the same on every boot, so the nearest GiB counts.
  std::string text = fmt::format("cpu={}\ncores={}\nmemory_gib={}\n",
                                 machine.cpu_model,
                                 machine.cores,
                                 (machine.memory_bytes + kGiB / 2) / kGiB);
  for (const Gpu& gpu : machine.gpus) {
    text += fmt::format("gpu={} memory_gib={}\n", gpu.name, (gpu.memory_bytes + kGiB / 2) / kGiB);
  }
  constexpr std::size_t kDigits = 16;
  return sha256_hex(text).substr(0, kDigits);
}

Json to_json(const Machine& machine) {
  return {{"schema", 1},
          {"name", machine.name},
          {"fingerprint", fingerprint(machine)},
          {"cpu_model", machine.cpu_model},
          {"cores", machine.cores},
          {"memory_bytes", machine.memory_bytes},
          {"numa_nodes", list_of(machine.numa_nodes, numa_form)},
          {"caches", list_of(machine.caches, cache_form)},
          {"gpus", list_of(machine.gpus, gpu_form)},
          {"gpu_note", machine.gpu_note},
          {"links", list_of(machine.links, link_form)},
          {"paths", list_of(machine.paths, path_form)}};
}

}  // namespace sennit
