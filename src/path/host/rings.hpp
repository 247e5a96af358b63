// Path host: a ring of slots for each rank in host memory that all processes share and all devices
// have mapped. The owner's copy engine fills a slot; whoever the message is for, one rank or all
// others (a hub), copies it out again. Who may touch a slot when is said in words
// (world/stream_words.hpp).
//
// A ring is small, so that it stays in the cache of the host: what is written to it is read again
// some hundred microseconds later.
#pragma once

#include <cstddef>
#include <vector>

namespace sennit::host {

inline constexpr int kMaxSlots = 16;

struct RingShape {
  int slots = 0;  // 0: there are no rings
  std::size_t slot_bytes = 0;

  // So many slots of whole pages as `ring_bytes` hold, up to kMaxSlots; none where fewer than two
  // would be, since a ring of one never copies in while it copies out.
  static RingShape within(std::size_t ring_bytes, std::size_t slot_bytes);

  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(slots) * slot_bytes; }
  bool operator==(const RingShape&) const = default;
};

// The rings of all ranks, as one device sees them.
struct Rings {
  RingShape shape;
  std::vector<std::byte*> bases;  // by rank

  [[nodiscard]] std::byte* slot(int rank, int index) const {
    return bases[static_cast<std::size_t>(rank)] +
           static_cast<std::size_t>(index) * shape.slot_bytes;
  }
};

// Asks for huge pages, of which copy engines have to look up fewer. A hint: nothing depends on it.
void advise_huge_pages(std::byte* memory, std::size_t bytes);

}  // namespace sennit::host
