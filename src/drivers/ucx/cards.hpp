// The network cards that may carry messages between nodes.
#pragma once

#include "drivers/ucx/ucx.hpp"

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sennit {

struct NetworkCard {
  std::string device;  // as UCX names it: "eth0", "mlx5_0:1"
  bool is_rdma = false;
  int mbit_per_s = 0;  // 0: the system does not say

  bool operator==(const NetworkCard&) const = default;
};

// Ports of RDMA devices that are active; where there are none, interfaces that are up, but for
// bridges, the loopback and others without a device or a peer. By name. `root` holds "sys".
std::vector<NetworkCard> find_cards(const std::filesystem::path& root = "/");

// Those that SENNIT_RAILS names, in its order; else those that find_cards() finds. kInvalidArgument
// where one has a name that no card can have.
Result<std::vector<NetworkCard>> wanted_cards(std::string_view names,
                                              const std::filesystem::path& root = "/");

// Which of these cards are nearest to a PCI device, such as a GPU, that sysfs calls `pci_bus_id`:
// of its NUMA node, with the fewest bridges between. Empty where the system does not say of all.
std::vector<int> nearest_cards(std::span<const NetworkCard> cards,
                               const std::string& pci_bus_id,
                               const std::filesystem::path& root = "/");

}  // namespace sennit
