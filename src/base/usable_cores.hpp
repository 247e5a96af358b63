// How many cores ranks have to run on.
#pragma once

#include <sys/types.h>

#include <vector>

namespace sennit {

// Cores on which this process or one of the others may run. Launchers bind each rank to cores of
// its own, so that none of them sees all that the ranks have. A process that is not visible (0) or
// has ended adds none.
int usable_cores(const std::vector<pid_t>& others);

}  // namespace sennit
