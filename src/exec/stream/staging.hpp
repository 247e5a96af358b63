// Staging: device memory of a rank into which others put what it is to reduce. It grows with the
// largest call, in a few steps. What a call has used stays: it may be captured in a graph.
#pragma once

#include "drivers/cuda/cuda.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sennit::stream {

class Staging {
 public:
  // Longer calls go in rounds. An all_reduce of 1 GB over 4 ranks needs all of it.
  static constexpr std::int64_t kMostBytes = std::int64_t{768} << 20;
  // 48, 192 or 768 MiB: whole pages, of 2 MiB.
  static constexpr int kSteps = 3;
  static constexpr std::int64_t kStep = 4;

  // Allocates nothing yet.
  explicit Staging(CudaDriver& driver, std::int64_t most_bytes = kMostBytes)
      : driver_(driver), most_bytes_(most_bytes) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // At least so many bytes, at most most_bytes(). Not while a stream captures, unless they are
  // there.
  Status reserve(std::int64_t bytes);
  [[nodiscard]] std::int64_t most_bytes() const { return most_bytes_; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  // Null before the first reserve().
  [[nodiscard]] std::byte* memory() const {
    return allocations_.empty() ? nullptr : allocations_.back();
  }

 private:
  CudaDriver& driver_;
  std::int64_t most_bytes_;
  std::int64_t bytes_ = 0;  // of the last allocation
  std::vector<std::byte*> allocations_;
};

}  // namespace sennit::stream
