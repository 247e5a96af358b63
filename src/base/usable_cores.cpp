#include "base/usable_cores.hpp"

#include <sched.h>

#include <algorithm>

namespace sennit {

int usable_cores(const std::vector<pid_t>& others) {
  cpu_set_t all;
  CPU_ZERO(&all);
  ::sched_getaffinity(0, sizeof(all), &all);
  for (const pid_t pid : others) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (pid != 0 && ::sched_getaffinity(pid, sizeof(set), &set) == 0) {
      CPU_OR(&all, &all, &set);
    }
  }
  return std::max(1, CPU_COUNT(&all));
}

}  // namespace sennit
