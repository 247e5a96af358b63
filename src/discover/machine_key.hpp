// The key of the machine at hand, by which a tuning table knows it again.
#pragma once

#include "select/tuning_table.hpp"

namespace sennit {

// Equal in all processes of a machine, wherever a launcher bound them.
Result<MachineKey> discover_machine_key();

}  // namespace sennit
