// Machine: what a plan may know of the computer that it runs on, as plain data. `discover` fills
// one for the machine at hand; one may as well be written by hand for a machine that nobody here
// has.
#pragma once

#include "base/json.hpp"
#include "machine/path_kind.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace sennit {

struct NumaNode {
  int index = 0;
  std::string cpus;  // as the kernel lists them: "0-15,32-47"
  std::int64_t memory_bytes = 0;
};

struct Cache {
  int level = 0;
  std::string type;  // Data, Instruction, Unified
  std::int64_t bytes = 0;
  int shared_by = 1;  // hardware threads
};

struct Gpu {
  std::string name;
  std::int64_t memory_bytes = 0;
  std::string uuid{};
  std::string pci_bus_id{};
  int numa_node = -1;       // -1: unknown
  int pcie_generation = 0;  // 0: unknown
  int pcie_lanes = 0;
};

struct Link {
  std::string from;  // "host", "gpu0", "nvswitch", ...
  std::string to;
  PathKind path = PathKind::kShm;
  double bandwidth_gbps = 0;  // 10^9 bytes a second, one way
  double latency_us = 0;      // 0: not known
  std::string source;         // "measured", or what says so
};

// Whether ranks on this machine can use a path, and if not, why.
struct PathState {
  PathKind kind = PathKind::kShm;
  bool available = false;
  std::string note;
};

struct Machine {
  std::string name;  // of the host
  std::string cpu_model;
  int cores = 0;  // hardware threads that this process may use
  std::int64_t memory_bytes = 0;
  std::vector<NumaNode> numa_nodes;
  std::vector<Cache> caches;
  std::vector<Gpu> gpus;
  std::string gpu_note;  // why there are none, where there are none
  std::vector<Link> links;
  std::vector<PathState> paths;
};

// 16 hexadecimal digits that name this kind of machine: equal for machines with the same CPU model,
// cores, memory to the GiB, and GPUs. Measured tables are kept by it.
std::string fingerprint(const Machine& machine);

Json to_json(const Machine& machine);

}  // namespace sennit
