// The kernels of the direct family, as CudaDriver::launch takes them.
#pragma once

#include "exec/sm/arena.hpp"
#include "types/tables.hpp"

#include <array>
#include <cstdint>

namespace sennit::sm {

// Which kernel runs a call: that of one protocol or, of calls in Ll, that of small ones.
enum class KernelKind : std::uint8_t { kLl, kLl128, kPlain, kSmall, kPut };
inline constexpr std::array kKernelKinds = {
    KernelKind::kLl, KernelKind::kLl128, KernelKind::kPlain, KernelKind::kSmall, KernelKind::kPut};

constexpr KernelKind kernel_kind(Packets packets) {
  switch (packets) {
    case Packets::kLl:
      return KernelKind::kLl;
    case Packets::kLl128:
      return KernelKind::kLl128;
    case Packets::kPlain:
      return KernelKind::kPlain;
  }
  return KernelKind::kLl;
}

// What moves data alone. Takes a DirectCall, a SmallCall or a PutCall.
const void* moving_kernel(KernelKind kind);
// What runs sends and recvs (PairCalls) in Ll and in packets `large`, Ll128 or plain ones, and what
// runs small ones (SmallPairs).
const void* pairs_kernel(Packets large);
const void* small_pairs_kernel();
// What reduces elements of `dtype` by `op`; null for pairs that do not exist, and for kPut where
// contributions are scaled before they are read.
const void* reducing_kernel(KernelKind kind, Dtype dtype, ReduceOp op);

}  // namespace sennit::sm
