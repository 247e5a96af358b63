// The GPUs of a machine and the wires that join them, as NVML and sysfs describe them.
#pragma once

#include "base/status.hpp"
#include "drivers/nvml/nvml.hpp"
#include "machine/machine.hpp"

#include <filesystem>

namespace sennit {

// Adds GPUs and links. A GPU that cannot be read is left out and named in the note.
void add_gpus(NvmlDriver& nvml, const std::filesystem::path& root, Machine& machine);

// Whether ranks can use these paths; `cuda` says why GPU ranks cannot run, or is ok.
PathState device_state(const Machine& machine, const Status& cuda);
PathState nvlink_state(const Machine& machine, const Status& cuda);

}  // namespace sennit
