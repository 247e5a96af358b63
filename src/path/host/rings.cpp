#include "path/host/rings.hpp"

#include <sys/mman.h>

#include <algorithm>

namespace sennit::host {

RingShape RingShape::within(std::size_t ring_bytes, std::size_t slot_bytes) {
  constexpr std::size_t kPage = 4096;
  const std::size_t slot = slot_bytes / kPage * kPage;
  const std::size_t slots = slot == 0 ? 0 : std::min<std::size_t>(ring_bytes / slot, kMaxSlots);
  return slots < 2 ? RingShape{} : RingShape{static_cast<int>(slots), slot};
}

void advise_huge_pages(std::byte* memory, std::size_t bytes) {
  (void)::madvise(memory, bytes, MADV_HUGEPAGE);
}

}  // namespace sennit::host
