// PairRings: the rings in host memory through which this rank sends to each other rank and receives
// from it. One is pinned when its two ranks first want it, since that takes milliseconds and
// memory.
#pragma once

#include "comm/device/device_memory.hpp"
#include "comm/world.hpp"

#include <cstddef>
#include <map>

namespace sennit {

class PairRings {
 public:
  // `memory` and `world` outlive the result.
  PairRings(CudaDriver& driver, const DeviceMemory& memory, const World& world);
  // After the streams that use the rings.
  ~PairRings();
  PairRings(const PairRings&) = delete;
  PairRings& operator=(const PairRings&) = delete;

  // As this device sees it; null where it cannot be pinned, or is not and may not be now. The
  // reader asks when the sender has its ring: where both are threads of one process, the sender's
  // is that of both, since a page may be pinned once in a process.
  std::byte* to(int reader, bool may_pin) { return open(world_.rank(), reader, may_pin); }
  std::byte* from(int sender, bool may_pin) { return open(sender, world_.rank(), may_pin); }

 private:
  struct Ring {
    std::byte* on_device = nullptr;  // null: it could not be pinned
    bool is_pinned = false;          // by this rank
  };

  std::byte* open(int sender, int reader, bool may_pin);
  Ring pin(int sender, int reader);

  CudaDriver& driver_;
  const DeviceMemory& memory_;
  const World& world_;
  std::map<std::byte*, Ring> rings_;  // by host address
};

}  // namespace sennit
