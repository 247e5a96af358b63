// CrossingSlots: pinned host memory through which the data of calls between nodes pass, and the
// words by which streams and the thread that makes these calls wait for each other.
//
//   stream:  copies in;  store n to begun;   ...   await n in ended[n % kSlots];  copies out
//   thread:  while (begun < n) {}   makes the call;   ended[n % kSlots] = n
//
// In a capture the stream calls the host in place of storing n, and the word is 0 or 1: so every
// replay is a new part.
//
// Part n uses the slot n % kSlots. A stream copies into it after it has copied part n - kSlots out.
// A part that is larger than a slot is alone in its call, and has all of the memory.
#pragma once

#include "drivers/cuda/cuda.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace sennit {

class CrossingSlots {
 public:
  static constexpr std::size_t kSlots = 4;
  // Copies of a slot take much less than its call, and a call of tens of megabytes has enough parts
  // for the two to overlap.
  static constexpr std::size_t kSlotBytes = std::size_t{4} << 20;

  // For the current device and parts of up to `most_bytes`; `driver` outlives the result.
  static Result<std::unique_ptr<CrossingSlots>> create(CudaDriver& driver, std::size_t most_bytes);
  ~CrossingSlots();
  CrossingSlots(const CrossingSlots&) = delete;
  CrossingSlots& operator=(const CrossingSlots&) = delete;

  // Of a part.
  [[nodiscard]] std::size_t most_bytes() const { return bytes_; }
  [[nodiscard]] std::byte* memory(std::uint64_t part, std::size_t bytes) const;

  // As the device sees them.
  [[nodiscard]] std::uint64_t* begun_on_device() const;
  [[nodiscard]] std::uint64_t* ended_on_device(std::uint64_t part) const;
  [[nodiscard]] std::uint64_t* replayed_on_device(std::uint64_t part) const;
  // By the host.
  [[nodiscard]] bool has_begun(std::uint64_t part) const;
  void end(std::uint64_t part) const;
  // 0: it has begun, 1: it has ended.
  void set_replayed(std::uint64_t part, std::uint64_t state) const;

 private:
  explicit CrossingSlots(CudaDriver& driver) : driver_(driver) {}

  CudaDriver& driver_;
  std::size_t bytes_ = 0;
  MappedMemory words_;
  MappedMemory memory_;
};

}  // namespace sennit
