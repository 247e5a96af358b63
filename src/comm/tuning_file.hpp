// The tuning table of a communicator, out of the file that its config names.
#pragma once

#include "select/tuning_table.hpp"

#include <memory>
#include <string>

namespace sennit {

// Null for an empty name. kInvalidArgument when the file cannot be read, is malformed, or was
// measured on another machine.
Result<std::shared_ptr<const TuningTable>> load_tuning_table(const std::string& file);

}  // namespace sennit
