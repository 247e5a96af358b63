#include "discover/machine_key.hpp"

#include "discover/discover.hpp"

#include <unistd.h>

namespace sennit {

Result<MachineKey> discover_machine_key() {
  SENNIT_ASSIGN_OR_RETURN(const Machine machine, discover_host());
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  MachineKey key{.cpu = machine.cpu_model,
                 .cores = ::sysconf(_SC_NPROCESSORS_ONLN),
                 .memory_gib = (machine.memory_bytes + kGiB / 2) / kGiB};
  if (!machine.gpus.empty()) {
    key.gpus.clear();
    for (const Gpu& gpu : machine.gpus) {
      key.gpus += (key.gpus.empty() ? "" : ", ") + gpu.name;
    }
  }
  return key;
}

}  // namespace sennit
