// What was measured, out of the files that a communicator's config names.
#pragma once

#include "select/gpu_profile.hpp"
#include "select/tuning_table.hpp"

#include <memory>
#include <optional>
#include <string>

namespace sennit {

// Null for an empty name. kInvalidArgument when the file cannot be read, is malformed, or was
// measured on another machine.
Result<std::shared_ptr<const TuningTable>> load_tuning_table(const std::string& file);

// Nothing for an empty name. kInvalidArgument when the file cannot be read or is malformed.
Result<std::optional<GpuProfile>> load_gpu_profile(const std::string& file);

}  // namespace sennit
