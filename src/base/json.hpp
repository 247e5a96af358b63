// The one place that includes the JSON library. Objects keep the order in which keys were set.
#pragma once

#include <nlohmann/json.hpp>

namespace sennit {

using Json = nlohmann::ordered_json;

}  // namespace sennit
