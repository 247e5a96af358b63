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

// The same for less than a unit of whole words on a boundary of words: side by side, not one after
// the other.
__device__ inline Unit read_words(const std::byte* from, std::int64_t left) {
  const auto* const words = reinterpret_cast<const std::uint32_t*>(from);
  return {words[0], left > 4 ? words[1] : 0, left > 8 ? words[2] : 0, 0};
}

__device__ inline void write_words(std::byte* to, std::int64_t left, Unit unit) {
  auto* const words = reinterpret_cast<std::uint32_t*>(to);
  words[0] = unit.x;
  if (left > 4) {
    words[1] = unit.y;
  }
  if (left > 8) {
    words[2] = unit.z;
  }
}

// The same, by as few loads and stores as the address allows.
__device__ inline Unit read_unit(const std::byte* from, std::int64_t left) {
  const auto address = reinterpret_cast<std::uintptr_t>(from);
  if (left >= 16 && address % 16 == 0) {
    return *reinterpret_cast<const Unit*>(from);
  }
  if (left >= 16 && address % 4 == 0) {
    const auto* const words = reinterpret_cast<const std::uint32_t*>(from);
    return {words[0], words[1], words[2], words[3]};
  }
  return read_bytes(from, left);
}

__device__ inline void write_unit(std::byte* to, std::int64_t left, Unit unit) {
  const auto address = reinterpret_cast<std::uintptr_t>(to);
  if (left >= 16 && address % 16 == 0) {
    *reinterpret_cast<Unit*>(to) = unit;
  } else if (left >= 16 && address % 4 == 0) {
    auto* const words = reinterpret_cast<std::uint32_t*>(to);
    words[0] = unit.x;
    words[1] = unit.y;
    words[2] = unit.z;
    words[3] = unit.w;
  } else {
    write_bytes(to, left, unit);
  }
}

}  // namespace sennit
