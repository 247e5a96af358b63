// Unit: 16 bytes of the user's data, which a thread moves and reduces at once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sennit {

using Unit = uint4;

// Of the unit at `from`, which lies on a boundary of words, `left` bytes are the user's: whole
// words, all loaded before the first is waited for.
__device__ inline Unit read_words(const std::byte* from, std::int64_t left) {
  const auto* const words = reinterpret_cast<const std::uint32_t*>(from);
  return {words[0], left > 4 ? words[1] : 0, left > 8 ? words[2] : 0, left > 12 ? words[3] : 0};
}

__device__ inline void write_words(std::byte* to, std::int64_t left, const Unit& unit) {
  auto* const words = reinterpret_cast<std::uint32_t*>(to);
  words[0] = unit.x;
  if (left > 4) {
    words[1] = unit.y;
  }
  if (left > 8) {
    words[2] = unit.z;
  }
  if (left > 12) {
    words[3] = unit.w;
  }
}

// Of the unit at `at` those bytes that are the user's are whole words in their places.
__device__ inline bool is_of_words(const std::byte* at, std::int64_t left) {
  return (reinterpret_cast<std::uintptr_t>(at) & 3) == 0 && (left >= 16 || (left & 3) == 0);
}

// The unit at `from`, of which `left` bytes are the user's, wherever it lies. Out of line: kernels
// of a few microseconds wait for every line of their own code.
inline __device__ __noinline__ Unit read_apart(const std::byte* from, std::int64_t left) {
  if (is_of_words(from, left)) {
    return read_words(from, left);
  }
  std::uint32_t words[4] = {};
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    if (i < left) {
      words[i / 4] |= static_cast<std::uint32_t>(from[i]) << (i % 4 * 8);
    }
  }
  return {words[0], words[1], words[2], words[3]};
}

inline __device__ __noinline__ void write_apart(std::byte* to, std::int64_t left, Unit unit) {
  if (is_of_words(to, left)) {
    write_words(to, left, unit);
    return;
  }
  const std::uint32_t words[4] = {unit.x, unit.y, unit.z, unit.w};
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    if (i < left) {
      to[i] = static_cast<std::byte>(words[i / 4] >> (i % 4 * 8) & 0xff);
    }
  }
}

__device__ inline bool is_whole(const std::byte* at, std::int64_t left) {
  return left >= 16 && (reinterpret_cast<std::uintptr_t>(at) & 15) == 0;
}

// The same, by as few loads and stores as the address allows.
__device__ inline Unit read_unit(const std::byte* from, std::int64_t left) {
  return is_whole(from, left) ? *reinterpret_cast<const Unit*>(from) : read_apart(from, left);
}

__device__ inline void write_unit(std::byte* to, std::int64_t left, const Unit& unit) {
  if (is_whole(to, left)) {
    *reinterpret_cast<Unit*>(to) = unit;
  } else {
    write_apart(to, left, unit);
  }
}

}  // namespace sennit
