// Topology: the wires of a machine, as plain data: what the simulator and the cost models know of a
// computer. The text form (docs/machines.md) names a source for every number.
//
//   machine pair Two GPUs and a processor
//   source guess written for this example
//   gpu 0..1
//   cpu 0 memory 100 GB/s from guess
//   link gpu0 gpu1 nvlink 75 GB/s from guess
//   link gpu0..1 cpu0 pcie 12 GB/s both 20 GB/s from guess
//   path nvlink start 8 us from guess
//
// A file describes one node; a machine with a fabric may have any number of them.
#pragma once

#include "base/status.hpp"
#include "machine/path_kind.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sennit {

enum class VertexKind : std::uint8_t {
  kGpu,
  kCpu,
  kNic,
  kSwitch,
  kFabric,  // one for all nodes
};

// Rates are in 10^9 bytes a second, times in microseconds; 0 means "no limit" or "no cost".
struct Vertex {
  VertexKind kind = VertexKind::kGpu;
  std::string name{};      // "gpu0"; a fabric's or switch's own
  double memory_gbps = 0;  // reads and writes together
  // Between two processes that share it without MPS: before kernels and copies within it, and
  // before copies from or to the host.
  double switch_us = 0;
  double copy_switch_us = 0;
  double call_us = 0;      // what a kernel takes to begin and to end
  double load_us = 0;      // what a thread block waits for its own device's memory
  double step_us = 0;      // what a step costs a block that runs a schedule step by step
  double reduce_gbps = 0;  // of results, where two operands are combined
  std::string source{};    // of the numbers; empty where there are none
};

enum class WireKind : std::uint8_t {
  kNvlink,
  kPcie,
  kBus,      // joins processors; copies between GPUs may pass
  kHostBus,  // joins processors, for their own memory accesses only
  kNet,
};

// Joins two vertices of a node, or a vertex to the fabric.
struct Wire {
  int a = 0;  // index into Topology::vertices
  int b = 0;
  WireKind kind = WireKind::kPcie;
  double gbps = 0;       // each way
  double both_gbps = 0;  // both ways together; 0: twice one way
  std::string source{};
};

// What a message on a path costs besides its bytes.
struct PathCost {
  PathKind path = PathKind::kNvlink;
  double start_us = 0;     // before the first byte moves
  double sm_start_us = 0;  // the same when thread blocks move the bytes; 0: as start_us
  double lane_gbps = 0;    // what one thread block or one core can drive
  double free_us = 0;      // from when a message has been taken to when its writer knows
  double sm_free_us = 0;   // the same between thread blocks, where no packets come back
  double sms_gbps = 0;     // what all thread blocks of a device together get out of one wire
  std::string source{};
};

struct Topology {
  std::string name;
  std::string title;
  std::vector<std::pair<std::string, std::string>> sources;  // key, what it is
  std::vector<Vertex> vertices;
  std::vector<Wire> wires;
  std::vector<PathCost> paths;

  // Indices of the vertices where ranks live: its GPUs, or its processors if it has none.
  [[nodiscard]] std::vector<int> devices() const;
  // For each device the island it lies on, numbered from 0: devices of one island reach each other
  // without a bus between processors and without the network.
  [[nodiscard]] std::vector<int> islands() const;
  [[nodiscard]] bool has_fabric() const;
  // The costs of `path`; none if the file has no such line.
  [[nodiscard]] PathCost cost(PathKind path) const;
};

std::string_view name(VertexKind kind);
std::string_view name(WireKind kind);

// Failures are kInvalidArgument and begin with "file_name:line: ".
Result<Topology> topology_from_text(std::string_view text, std::string_view file_name);
// topology_from_text(to_text(t)) gives t again.
std::string to_text(const Topology& topology);

}  // namespace sennit
