// SlotStores: how one rank stores messages into the slots of one ring.
//
// The lines of a slot lie in the caches of the core that read the last message there, and a plain
// store waits until they have come from there: a moment between threads of one core, long between
// cores of two last-level caches or two sockets. Streaming stores go to memory instead. A rank
// cannot ask where its peer runs (the system moves it, and a virtual machine hides the caches), so
// it times plain stores now and then, and streams while they are slow. This is the writer's own
// affair: the reader finds the same bytes.
//
// 1 MB each way between two cores of an AMD EPYC (Zen 4), in us; a virtual machine whose host moves
// its cores about (bench/slot_stores.py, `slot-stores` in bench/results):
//
//                                   messages of 8 KB     of 64 KB
//                                   plain  streaming     plain  streaming
//   threads of one core               103        213        89        141
//   cores of one last-level cache     176        167       138        128
//   cores of two last-level caches    604        185       584         95
//
// Stores of this class take 1 % more than the faster ones in the first two rows, and 199 and 101 us
// in the last.
#pragma once

#include "base/copy_bytes.hpp"
#include "base/vectors.hpp"

#include <cstddef>
#include <cstdint>

namespace sennit::shm {

class SlotStores {
 public:
  // Plain stores below this rate are slow: half of what threads of one core reach. On processors of
  // Intel, whose streaming stores are slower, half of what cores with one last-level cache reach.
  // Without AVX2 there are none.
  static double slow_bytes_per_ns() { return !has_avx2() ? 0 : is_intel() ? 4 : 14; }

  explicit SlotStores(double slow_bytes_per_ns = SlotStores::slow_bytes_per_ns())
      : slow_bytes_per_ns_(slow_bytes_per_ns) {}

  // Copies `bytes` from the rank's memory to `slot`. Complete before any later store is seen.
  void copy(std::byte* slot, const std::byte* from, std::size_t bytes) {
    bytes < kLeastBytes ? copy_bytes(slot, from, bytes) : copy_many(slot, from, bytes);
  }

  // The next copy() of `bytes` may stream, or times plain stores. A caller that computes a message
  // should compute it in memory of its own then, and copy it.
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
