#include "memory/pair_rings.hpp"

#include "base/log.hpp"

namespace sennit {

PairRings::PairRings(CudaDriver& driver, const World& world, bool through_host)
    : driver_(driver),
      world_(world),
      shape_(shape_beside(world.gpu_staging().shape, through_host)) {}

host::RingShape PairRings::shape_beside(const host::RingShape& of_rank, bool through_host) {
  const auto half = host::RingShape::within(of_rank.bytes() / 2, of_rank.slot_bytes / 2);
  return through_host && half.slots > 0 ? half : of_rank;
}

std::byte* PairRings::open(int sender, int reader, bool may_pin) {
  Ring& ring = rings_[world_.gpu_staging().pair_ring(sender, reader)];
  if (ring.pinned == nullptr && may_pin && ring.retries.is_due()) {
    ring.pinned = pin(sender, reader);
  }
  return ring.pinned == nullptr ? nullptr : ring.pinned->on_device();
}

std::shared_ptr<HeldMemory> PairRings::pin(int sender, int reader) {
  std::byte* const memory = world_.gpu_staging().pair_ring(sender, reader);
  host::advise_huge_pages(memory, shape_.bytes());
  const Result<std::shared_ptr<HeldMemory>> pinned =
      HeldMemory::pin(driver_, memory, shape_.bytes());
  if (!pinned.ok()) {
    SENNIT_INFO("device",
                "no path host from rank {} to rank {}: {}",
                sender,
                reader,
                pinned.status().message());
    return nullptr;
  }
  SENNIT_INFO("device",
              "path host from rank {} to rank {}: {} slots of {} bytes of pinned host memory",
              sender,
              reader,
              shape_.slots,
              shape_.slot_bytes);
  return *pinned;
}

}  // namespace sennit
