// CrossingSlots: pinned host memory through which the data of calls between nodes pass, and the
// words by which streams and the thread that makes these calls wait for each other.
//
//   stream:  copies into slot(n);  store n to begun();   ...   await n in ended(n);  copies out
//   thread:  while (begun() < n) {}   make the call in slot(n);   ended(n) = n
//
// Part n uses the slot n % kSlots. A stream copies into it after it has copied part n - kSlots out.
#pragma once

#include "drivers/cuda/cuda.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace sennit {

class CrossingSlots {
 public:
  static constexpr int kSlots = 4;

  // For the current device; `driver` outlives the result.
  static Result<std::unique_ptr<CrossingSlots>> create(CudaDriver& driver, std::size_t slot_bytes);
  ~CrossingSlots();
  CrossingSlots(const CrossingSlots&) = delete;
  CrossingSlots& operator=(const CrossingSlots&) = delete;

  [[nodiscard]] std::size_t slot_bytes() const { return slot_bytes_; }
  [[nodiscard]] std::byte* slot(std::uint64_t part) const;

  // As the device sees them.
  [[nodiscard]] std::uint64_t* begun_on_device() const;
  [[nodiscard]] std::uint64_t* ended_on_device(std::uint64_t part) const;
  // By the host.
  [[nodiscard]] bool has_begun(std::uint64_t part) const;
  void end(std::uint64_t part) const;

 private:
  explicit CrossingSlots(CudaDriver& driver) : driver_(driver) {}

  CudaDriver& driver_;
  std::size_t slot_bytes_ = 0;
  MappedMemory words_;
  MappedMemory slots_;
};

}  // namespace sennit
