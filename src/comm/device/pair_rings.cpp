#include "comm/device/pair_rings.hpp"

#include "base/log.hpp"

namespace sennit {

PairRings::PairRings(CudaDriver& driver, const DeviceMemory& memory, const World& world)
    : driver_(driver), memory_(memory), world_(world) {}

PairRings::~PairRings() {
  const DeviceScope scope(driver_, memory_.device());
  for (const auto& [memory, ring] : rings_) {
    if (ring.is_pinned) {
      (void)driver_.unmap_host(memory);
    }
  }
}

std::byte* PairRings::open(int sender, int reader, bool may_pin) {
  std::byte* const memory = world_.pair_ring(sender, reader);
  auto known = rings_.find(memory);
  if (known == rings_.end()) {
    if (!may_pin) {
      return nullptr;
    }
    known = rings_.emplace(memory, pin(sender, reader)).first;
  }
  return known->second.on_device;
}

PairRings::Ring PairRings::pin(int sender, int reader) {
  std::byte* const memory = world_.pair_ring(sender, reader);
  if (reader == world_.rank() && memory_.is_of_this_process(sender)) {
    return {.on_device = memory};
  }
  const host::RingShape& shape = world_.host_ring_shape();
  host::wish_for_huge_pages(memory, shape.bytes());
  const Result<void*> mapped = driver_.map_host(memory, shape.bytes());
  if (!mapped.ok()) {
    SENNIT_INFO("device",
                "no path host from rank {} to rank {}: {}",
                sender,
                reader,
                mapped.status().message());
    return {};
  }
  SENNIT_INFO("device",
              "path host from rank {} to rank {}: {} slots of {} bytes of pinned host memory",
              sender,
              reader,
              shape.slots,
              shape.slot_bytes);
  return {.on_device = static_cast<std::byte*>(*mapped), .is_pinned = true};
}

}  // namespace sennit
