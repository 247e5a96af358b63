// SlotStores: how one rank stores messages into the slots of one ring.
//
// A line of a slot lies in the caches of the core that read the last message there. How long a store
// waits for it depends on where that core is: on the same core a store takes what it always takes;
// from a core with another last-level cache, or of another socket, a line takes up to 15 times as
// long. Streaming stores go to memory without asking that cache. A rank cannot ask where its peer
// runs (the system moves it, and a virtual machine hides the caches), so now and then it times plain
// stores, and streams while they are slow. Only the writer knows; the reader sees the same bytes.
//
// Measured on an AMD EPYC of 2022 (Zen 4), 2 cores of a virtual machine that the host moves about,
// 4 slots of 64 KB, both ways at once; `ping` is the time of one word to the other core, the rest is
// the time of 1 MB, each way (bench/results, `slot-stores`):
//
//   ping    plain stores alone   message, plain   message, streaming
//   60 ns   8 GB/s               165 us           130 us
//   250 ns  1.7 GB/s             660 us           105 us
#pragma once

#include "base/copy_bytes.hpp"

#include <cstddef>
#include <cstdint>

namespace sennit::shm {

class SlotStores {
 public:
  // Plain stores below this rate are slow: half of what cores with one last-level cache reach, and
  // twice what others reach.
  static constexpr double kSlowBytesPerNs = 4;

  explicit SlotStores(double slow_bytes_per_ns = kSlowBytesPerNs)
      : slow_bytes_per_ns_(slow_bytes_per_ns) {}

  // Copies `bytes` from the rank's memory to `slot`. Complete before any later store is seen.
  void copy(std::byte* slot, const std::byte* from, std::size_t bytes) {
    bytes < kLeastBytes ? copy_bytes(slot, from, bytes) : copy_many(slot, from, bytes);
  }

  // The next copy() of `bytes` may stream, or times plain stores. Whoever computes what he stores
  // computes it elsewhere then, and copies it.
  [[nodiscard]] bool want_copies(std::size_t bytes) const {
    return bytes >= kLeastBytes && (are_slow_ || puts_to_look_ == 0);
  }

 private:
  static constexpr std::size_t kLeastBytes = 4096;

  void copy_many(std::byte* slot, const std::byte* from, std::size_t bytes);
  std::size_t look(std::byte* slot, const std::byte* from, std::size_t bytes);

  double slow_bytes_per_ns_;
  bool are_slow_ = false;  // plain stores
  bool was_slow_ = false;  // at the last look
  std::uint32_t puts_to_look_ = 0;
  std::uint32_t interval_ = 1;
};

}  // namespace sennit::shm
