// Discover: the description of the machine at hand, read from the kernel's files.
#pragma once

#include "base/status.hpp"
#include "machine/machine.hpp"

#include <filesystem>

namespace sennit {

// Reads proc/ and sys/ under `root`, which is "/" but in tests. What a kernel need not offer (NUMA
// nodes, caches) is left empty; without memory size and allowed cores it fails with kSystemError.
Result<Machine> discover_host(const std::filesystem::path& root = "/");

}  // namespace sennit
