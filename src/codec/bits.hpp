// Words of bits whose first bit is on top, where shifting and counting zeros are cheap on devices.
// Compiled for the host and for devices.
#pragma once

#include "types/host_device.hpp"

#include <cstdint>

namespace sennit::codec {

using Word128 = unsigned __int128;

template <typename Word>
inline constexpr int kWidth = static_cast<int>(sizeof(Word)) * 8;

// Shifts that give 0 from the width of the word on, and for negative distances, as the instructions
// of devices do.
template <typename Word>
SENNIT_HOST_DEVICE inline Word shifted_left(Word bits, int by) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(Word) == 4) {
    Word result;
    asm("shl.b32 %0, %1, %2;" : "=r"(result) : "r"(bits), "r"(by));
    return result;
  } else if constexpr (sizeof(Word) == 8) {
    Word result;
    asm("shl.b64 %0, %1, %2;" : "=l"(result) : "l"(bits), "r"(by));
    return result;
  }
#endif
  return static_cast<unsigned>(by) < unsigned{kWidth<Word>} ? static_cast<Word>(bits << by)
                                                            : Word{0};
}

template <typename Word>
SENNIT_HOST_DEVICE inline Word shifted_right(Word bits, int by) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(Word) == 4) {
    Word result;
    asm("shr.u32 %0, %1, %2;" : "=r"(result) : "r"(bits), "r"(by));
    return result;
  } else if constexpr (sizeof(Word) == 8) {
    Word result;
    asm("shr.u64 %0, %1, %2;" : "=l"(result) : "l"(bits), "r"(by));
    return result;
  }
#endif
  return static_cast<unsigned>(by) < unsigned{kWidth<Word>} ? static_cast<Word>(bits >> by)
                                                            : Word{0};
}

// How many bits are zero before the first one; the width where none is one.
SENNIT_HOST_DEVICE inline int leading_zeros(std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __clz(static_cast<int>(bits));
#else
  return bits == 0 ? 32 : __builtin_clz(bits);
#endif
}
SENNIT_HOST_DEVICE inline int leading_zeros(std::uint64_t bits) {
#if defined(__CUDA_ARCH__)
  return __clzll(static_cast<long long>(bits));
#else
  return bits == 0 ? 64 : __builtin_clzll(bits);
#endif
}
SENNIT_HOST_DEVICE inline int leading_zeros(Word128 bits) {
  const auto upper = static_cast<std::uint64_t>(bits >> 64);
  return upper != 0 ? leading_zeros(upper) : 64 + leading_zeros(static_cast<std::uint64_t>(bits));
}

// The same bits in the opposite order.
SENNIT_HOST_DEVICE inline std::uint32_t reversed(std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __brev(bits);
#else
  bits = __builtin_bswap32(bits);
  bits = (bits >> 4 & 0x0f0f0f0fU) | (bits & 0x0f0f0f0fU) << 4;
  bits = (bits >> 2 & 0x33333333U) | (bits & 0x33333333U) << 2;
  return (bits >> 1 & 0x55555555U) | (bits & 0x55555555U) << 1;
#endif
}
SENNIT_HOST_DEVICE inline std::uint64_t reversed(std::uint64_t bits) {
#if defined(__CUDA_ARCH__)
  return __brevll(bits);
#else
  bits = __builtin_bswap64(bits);
  bits = (bits >> 4 & 0x0f0f0f0f0f0f0f0fU) | (bits & 0x0f0f0f0f0f0f0f0fU) << 4;
  bits = (bits >> 2 & 0x3333333333333333U) | (bits & 0x3333333333333333U) << 2;
  return (bits >> 1 & 0x5555555555555555U) | (bits & 0x5555555555555555U) << 1;
#endif
}
SENNIT_HOST_DEVICE inline Word128 reversed(Word128 bits) {
  return static_cast<Word128>(reversed(static_cast<std::uint64_t>(bits))) << 64 |
         reversed(static_cast<std::uint64_t>(bits >> 64));
}

// The first `count` bits, and zeros behind them.
template <typename Word>
SENNIT_HOST_DEVICE inline Word first_bits(Word bits, int count) {
  return static_cast<Word>(bits & ~shifted_right(static_cast<Word>(~Word{0}), count));
}

// The first 32 bits.
template <typename Word>
SENNIT_HOST_DEVICE inline std::uint32_t first_word(Word bits) {
  return static_cast<std::uint32_t>(bits >> (kWidth<Word> - 32));
}

// The same first bits in a word of another width.
template <typename To, typename From>
SENNIT_HOST_DEVICE inline To resized(From bits) {
  if constexpr (kWidth<To> >= kWidth<From>) {
    return static_cast<To>(static_cast<To>(bits) << (kWidth<To> - kWidth<From>));
  } else {
    return static_cast<To>(bits >> (kWidth<From> - kWidth<To>));
  }
}

}  // namespace sennit::codec
