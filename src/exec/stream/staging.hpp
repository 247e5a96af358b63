// Staging: device memory of a rank into which copy engines fetch what is to be folded. Pieces of
// all operands lie side by side; a few generations of them, so that copies run ahead of the folds.
#pragma once

#include "drivers/cuda/cuda.hpp"

#include <cstddef>
#include <cstdint>

namespace sennit::stream {

class Staging {
 public:
  static constexpr int kGenerations = 2;
  // There are some 4 us between two copies of a stream: little beside the 170 us that one takes.
  static constexpr std::int64_t kPieceBytes = std::int64_t{64} << 20;
  // Of all of it: 384 MiB for 4 ranks. Pieces of more than 5 ranks are shorter.
  static constexpr std::int64_t kMostBytes = std::int64_t{512} << 20;

  // Allocates nothing yet. `piece_bytes`: at most, whole pages.
  Staging(CudaDriver& driver, int ranks, std::int64_t piece_bytes = kPieceBytes);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Once; not while a stream captures.
  Status allocate();
  [[nodiscard]] bool is_there() const { return memory_ != nullptr; }
  [[nodiscard]] std::int64_t piece_bytes() const { return piece_bytes_; }
  [[nodiscard]] std::int64_t bytes() const { return kGenerations * operands_ * piece_bytes_; }
  [[nodiscard]] std::byte* piece(int generation, int operand) const {
    return memory_ + (generation * operands_ + operand) * piece_bytes_;
  }

 private:
  CudaDriver& driver_;
  std::int64_t operands_;  // those of other ranks
  std::int64_t piece_bytes_;
  std::byte* memory_ = nullptr;
};

}  // namespace sennit::stream
