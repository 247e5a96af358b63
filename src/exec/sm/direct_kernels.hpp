// The kernels of collectives, sends and recvs, as CudaDriver::launch takes them.
#pragma once

#include "memory/fifo.hpp"
#include "types/tables.hpp"

#include <array>
#include <cstdint>

namespace sennit::sm {

// Which kernel runs a call: that of one protocol or, of calls in Ll, that of small ones.
enum class KernelKind : std::uint8_t { kLl, kLl128, kSlots, kPlain, kSmall, kSteps, kReads };
inline constexpr std::array kKernelKinds = {KernelKind::kLl,
                                            KernelKind::kLl128,
                                            KernelKind::kSlots,
                                            KernelKind::kPlain,
                                            KernelKind::kSmall,
                                            KernelKind::kSteps,
                                            KernelKind::kReads};

constexpr KernelKind kernel_kind(Packets packets) {
  switch (packets) {
    case Packets::kLl:
      return KernelKind::kLl;
    case Packets::kLl128:
      return KernelKind::kLl128;
    case Packets::kSlots:
      return KernelKind::kSlots;
    case Packets::kPlain:
      break;
  }
  return KernelKind::kPlain;
}

// Of these kinds operators have a kernel each that are short of others (has_every_kernel).
constexpr bool has_every_operator(KernelKind kind) {
  return kind == KernelKind::kLl || kind == KernelKind::kSmall || kind == KernelKind::kSteps;
}
// A reader does not know the factors of other ranks.
constexpr bool has_kernel(KernelKind kind, Dtype dtype, ReduceOp op) {
  return has_operator(dtype, op) && (has_every_operator(kind) || has_every_kernel(op)) &&
         (kind != KernelKind::kReads || op != ReduceOp::kPremulSum);
}

// What moves data alone; null for kReads. Takes a DirectCall, a SmallCall or a StepCall.
const void* moving_kernel(KernelKind kind);
// What runs so many sends and recvs (of PairCalls) through FIFOs in memory of GPUs or of the host,
// and what runs so many small ones (SmallPairs), in so many parts of a thread block.
const void* pairs_kernel(int calls, bool on_host);
const void* small_pairs_kernel(int calls, int parts);
// What reduces elements of `dtype` by `op`; null without has_kernel(). Of kReads: takes a
// ReadingCall.
const void* reducing_kernel(KernelKind kind, Dtype dtype, ReduceOp op);
// What runs a NormingCall; null for types that check_rows() refuses.
const void* norming_kernel(Dtype dtype);

}  // namespace sennit::sm
