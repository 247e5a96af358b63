// Path shm: rings of slots in memory that all ranks of a machine share.
//
// Between any two ranks there is a fixed number of rings ("ports") in each direction. The n-th
// channel from a to b of a plan takes port n. Positions in a ring count on from call to call, so
// consecutive calls need no barrier between them: a slot is reused when its reader has returned it,
// whichever call that was.
//
// A message of at most kInlineBytes lies in the cache line of its full word and costs one line.
#pragma once

#include "channel/channel.hpp"

#include <cstddef>
#include <cstdint>

namespace sennit::shm {

inline constexpr std::size_t kInlineBytes = 56;

struct alignas(64) SlotHead {
  channel::Word full;
  std::byte inline_payload[kInlineBytes];
};
static_assert(sizeof(SlotHead) == 64);

struct RingGeometry {
  int ranks = 1;
  int ports = 1;  // from one rank to another
  std::uint32_t slots = 4;
  std::size_t slot_bytes = 64 * 1024;

  bool operator==(const RingGeometry&) const = default;
};

// One ring; a view, copied freely. Message numbers are those of channel.hpp.
class Ring {
 public:
  Ring(std::byte* base, const RingGeometry& geometry);

  [[nodiscard]] std::uint32_t slots() const { return slots_; }
  [[nodiscard]] channel::Word& full(std::uint64_t message) const {
    return heads_[slot_of(message)].full;
  }
  [[nodiscard]] channel::Word& free(std::uint64_t message) const { return free_[slot_of(message)]; }
  // The number of a message on its bundle; written before its full word, read after it.
  [[nodiscard]] std::uint64_t& tag(std::uint64_t message) const { return tags_[slot_of(message)]; }
  // Where a message of `bytes` lies; both ends know its length.
  [[nodiscard]] std::byte* payload(std::uint64_t message, std::size_t bytes) const {
    const std::uint64_t slot = slot_of(message);
    return bytes <= kInlineBytes ? heads_[slot].inline_payload : data_ + slot * slot_bytes_;
  }

 private:
  // A division takes as long as half a message of 8 bytes; numbers of slots are powers of two,
  // hardly without exception.
  [[nodiscard]] std::uint64_t slot_of(std::uint64_t message) const {
    return (slots_ & (slots_ - 1)) == 0 ? message & (slots_ - 1) : message % slots_;
  }

  SlotHead* heads_;
  std::uint64_t* tags_;
  channel::Word* free_;
  std::byte* data_;
  std::uint32_t slots_;
  std::size_t slot_bytes_;
};

// All rings of a set of ranks, laid out in zeroed shared memory. Pages are touched only where
// messages travel, so the size is address space more than memory.
class RingPool {
 public:
  RingPool(std::byte* base, const RingGeometry& geometry) : base_(base), geometry_(geometry) {}

  [[nodiscard]] const RingGeometry& geometry() const { return geometry_; }
  [[nodiscard]] Ring ring(int writer, int reader, int port) const;

  static std::size_t bytes(const RingGeometry& geometry);

 private:
  std::byte* base_;
  RingGeometry geometry_;
};

}  // namespace sennit::shm
