// PairRings: the rings in host memory through which this rank sends to each other rank and receives
// from it. One is pinned when its two ranks first want it, since that takes milliseconds and
// memory.
#pragma once

#include "memory/held_memory.hpp"
#include "memory/retries.hpp"
#include "world/world.hpp"

#include <cstddef>
#include <map>
#include <memory>

namespace sennit {

class PairRings {
 public:
  // `world` outlives the result, which outlives the streams that use the rings.
  PairRings(CudaDriver& driver, const World& world, bool through_host);

  // In parallel with NVLink a ring has the shape of a rank's. Where all goes `through_host`, every
  // ring is in use at once, and half of that stays in the host's cache: 4 GPUs in a ring took 8.1
  // ms for 256 MB each through slots of 2 MB, and 11.0 through those of 4 MB (bench/results,
  // `h200x4-host-rings`).
  static host::RingShape shape_beside(const host::RingShape& of_rank, bool through_host);
  [[nodiscard]] const host::RingShape& shape() const { return shape_; }

  // As this device sees it; null where it cannot be pinned, or is not and may not be now.
  std::byte* to(int reader, bool may_pin) { return open(world_.rank(), reader, may_pin); }
  std::byte* from(int sender, bool may_pin) { return open(sender, world_.rank(), may_pin); }

 private:
  struct Ring {
    std::shared_ptr<HeldMemory> pinned;  // null: not, or not yet
    Retries retries;
  };

  std::byte* open(int sender, int reader, bool may_pin);
  std::shared_ptr<HeldMemory> pin(int sender, int reader);

  CudaDriver& driver_;
  const World& world_;
  host::RingShape shape_;
  std::map<std::byte*, Ring> rings_;  // by host address
};

}  // namespace sennit
