#pragma once

#include "base/status.hpp"

#include <string>

namespace sennit {

// All of a file. kInvalidArgument, with what the system says of it, where it cannot be read.
Result<std::string> read_text_file(const std::string& file);

}  // namespace sennit
