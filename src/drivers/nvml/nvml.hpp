// NvmlDriver: what NVIDIA's management library says of the GPUs of this machine and of the wires
// between them. The library is opened at run time; where it is missing, nvml_driver() says so.
//
//   if (const Result<NvmlDriver*> nvml = nvml_driver(); nvml.ok()) {
//     const Result<int> count = (*nvml)->device_count();
//   }
//
// Thread-safe. Indices are NVML's: all GPUs of the machine in the order of their PCI addresses,
// whatever CUDA_VISIBLE_DEVICES says.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sennit {

struct NvmlDevice {
  std::string name;
  std::string uuid;        // "GPU-..."
  std::string pci_bus_id;  // "0000:1b:00.0", as sysfs spells it
  std::int64_t memory_bytes = 0;
  int pcie_generation = 0;  // the best that both ends can; 0: not known
  int pcie_lanes = 0;
};

// An NVLink of a GPU that is up.
struct NvmlLink {
  enum class FarEnd : std::uint8_t { kGpu, kSwitch, kUnknown };

  int index = 0;
  double gbps = 0;  // 10^9 bytes a second, each way; 0: of a version that is not known here
  std::string version{};
  FarEnd far_end = FarEnd::kUnknown;
  std::string far_pci_bus_id{};
};

class NvmlDriver {
 public:
  virtual ~NvmlDriver() = default;

  virtual Result<std::string> driver_version() = 0;
  virtual Result<int> device_count() = 0;
  virtual Result<NvmlDevice> describe(int device) = 0;
  // Empty for GPUs without NVLink.
  virtual Result<std::vector<NvmlLink>> links(int device) = 0;
};

// Finds functions of NVML by name; null for those that are not there.
using NvmlSymbols = std::function<void*(const char* symbol)>;
// kUnsupported where a function that is needed is not there, or NVML cannot be started.
Result<std::unique_ptr<NvmlDriver>> open_nvml(const NvmlSymbols& symbols);

// NVML of this machine, opened once; kUnsupported, with the reason, where there is none.
Result<NvmlDriver*> nvml_driver();

}  // namespace sennit
