// Discover: the description of the machine at hand, read from the kernel's files and
// from NVIDIA's management library.
#pragma once

#include "base/status.hpp"
#include "drivers/nvml/nvml.hpp"
#include "machine/machine.hpp"

#include <filesystem>

namespace sennit {

// Reads proc/ and sys/ under `root`, which is "/" but in tests. What a kernel need not provide
// (NUMA nodes, caches) is left empty; without memory size and allowed cores it fails with
// kSystemError.
Result<Machine> discover_host(const std::filesystem::path& root = "/");

// The same of a machine whose GPUs `nvml` describes; `cuda` says why GPU ranks cannot run, or is
// ok.
Result<Machine> discover_host(const std::filesystem::path& root,
                              const Result<NvmlDriver*>& nvml,
                              const Status& cuda);

}  // namespace sennit
