// Ranks by group, as the requests of tools.h have them: {"groups": [[0, 1], [2, 3]]}.
#pragma once

#include "base/json.hpp"

#include <vector>

namespace sennit {

Result<std::vector<std::vector<int>>> read_groups(const JsonObject& request, int ranks);

}  // namespace sennit
