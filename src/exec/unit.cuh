// Unit: 16 bytes of the user's data, which a thread moves and reduces at once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sennit {

using Unit = uint4;

// The unit at `from`, of which `left` bytes are the user's, wherever it lies. Out of line: kernels
// of a few microseconds wait for every line of their own code.
inline __device__ __noinline__ Unit read_bytes(const std::byte* from, std::int64_t left) {
  alignas(16) std::byte bytes[16] = {};
  for (int i = 0; i < 16 && i < left; ++i) {
    bytes[i] = from[i];
  }
  return *reinterpret_cast<const Unit*>(bytes);
}

inline __device__ __noinline__ void write_bytes(std::byte* to, std::int64_t left, Unit unit) {
  alignas(16) std::byte bytes[16];
  *reinterpret_cast<Unit*>(bytes) = unit;
  for (int i = 0; i < 16 && i < left; ++i) {
    to[i] = bytes[i];
  }
}

}  // namespace sennit
