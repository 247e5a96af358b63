// The name of this machine (or container), for messages.
#pragma once

#include <string>

namespace sennit {

// At most 64 bytes, as Linux limits it; "unknown-host" when the system does not say.
std::string host_name();

}  // namespace sennit
