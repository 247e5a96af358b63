// How the bits of up to four coefficients become bit planes one behind the other, and are separated
// again: spread to every second or third place, or transposed to nibbles. Words have their first
// bit on top. Compiled for the host, there with the bit instructions of BMI2 if the source is
// compiled for them, and for devices.
#pragma once

#include "codec/bits.hpp"
#include "types/host_device.hpp"

#include <cstdint>

#if defined(__BMI2__) && !defined(__CUDACC__)
#include <immintrin.h>
#define SENNIT_BIT_DEPOSIT 1
#else
#define SENNIT_BIT_DEPOSIT 0
#endif

namespace sennit::codec {

inline constexpr std::uint32_t kEverySecond = 0xaaaaaaaaU;
inline constexpr std::uint32_t kEveryThird = 0x92492492U;

// The first 16 bits go to every second place, and back.
SENNIT_HOST_DEVICE inline std::uint32_t spread_by_2(std::uint32_t bits) {
#if SENNIT_BIT_DEPOSIT
  return _pdep_u32(bits >> 16, kEverySecond);
#else
  bits &= 0xffff0000U;
  bits = (bits | bits >> 8) & 0xff00ff00U;
  bits = (bits | bits >> 4) & 0xf0f0f0f0U;
  bits = (bits | bits >> 2) & 0xccccccccU;
  return (bits | bits >> 1) & kEverySecond;
#endif
}
SENNIT_HOST_DEVICE inline std::uint32_t gathered_by_2(std::uint32_t bits) {
#if SENNIT_BIT_DEPOSIT
  return _pext_u32(bits, kEverySecond) << 16;
#else
  bits &= kEverySecond;
  bits = (bits | bits << 1) & 0xccccccccU;
  bits = (bits | bits << 2) & 0xf0f0f0f0U;
  bits = (bits | bits << 4) & 0xff00ff00U;
  return (bits | bits << 8) & 0xffff0000U;
#endif
}

// The same of wider words, half by half: the first half of the bits goes to all of the places.
SENNIT_HOST_DEVICE inline std::uint64_t spread_by_2(std::uint64_t bits) {
  const std::uint32_t first = first_word(bits);
  return static_cast<std::uint64_t>(spread_by_2(first)) << 32 | spread_by_2(first << 16);
}
SENNIT_HOST_DEVICE inline Word128 spread_by_2(Word128 bits) {
  const auto first = static_cast<std::uint64_t>(bits >> 64);
  return static_cast<Word128>(spread_by_2(first)) << 64 | spread_by_2(first << 32);
}
SENNIT_HOST_DEVICE inline std::uint64_t gathered_by_2(std::uint64_t bits) {
  const std::uint32_t first = gathered_by_2(first_word(bits));
  const std::uint32_t second = gathered_by_2(static_cast<std::uint32_t>(bits));
  return static_cast<std::uint64_t>(first | second >> 16) << 32;
}
SENNIT_HOST_DEVICE inline Word128 gathered_by_2(Word128 bits) {
  const std::uint64_t first = gathered_by_2(static_cast<std::uint64_t>(bits >> 64));
  const std::uint64_t second = gathered_by_2(static_cast<std::uint64_t>(bits));
  return static_cast<Word128>(first | second >> 32) << 64;
}

// The first 11 bits go to every third place of 32, and back. Longer runs are made of pieces of ten
// whole planes, 30 bits, so that a piece never begins within a plane.
inline constexpr int kPlanesInPiece = 10;
inline constexpr int kBitsInPiece = 3 * kPlanesInPiece;

SENNIT_HOST_DEVICE inline std::uint32_t spread_by_3(std::uint32_t bits) {
#if SENNIT_BIT_DEPOSIT
  return _pdep_u32(bits >> 21, kEveryThird);
#else
  bits &= 0xffe00000U;
  bits = (bits | bits >> 16) & 0xff0000ffU;
  bits = (bits | bits >> 8) & 0xf00f00f0U;
  bits = (bits | bits >> 4) & 0xc30c30c3U;
  return (bits | bits >> 2) & kEveryThird;
#endif
}
SENNIT_HOST_DEVICE inline std::uint32_t gathered_by_3(std::uint32_t bits) {
#if SENNIT_BIT_DEPOSIT
  return _pext_u32(bits, kEveryThird) << 21;
#else
  bits &= kEveryThird;
  bits = (bits | bits << 2) & 0xc30c30c3U;
  bits = (bits | bits << 4) & 0xf00f00f0U;
  bits = (bits | bits << 8) & 0xff0000ffU;
  return (bits | bits << 16) & 0xffe00000U;
#endif
}

// 16 planes of four coefficients: the first half of four words in, 16 nibbles in two words out, and
// back.
//
// It is a permutation of addresses. A bit of the input is coefficient (i1 i0), plane (j3 j2 j1 j0);
// in two words it has an address [word | five bits of place]. Exchanging the word with one bit of
// the place takes five instructions for both words, and any permutation that moves whole bytes one
// a word, so the way from [i1 | i0 j3 j2 j1 j0] to [j3 | j2 j1 j0 i1 i0] has three exchanges.
struct Nibbles {
  std::uint32_t first;
  std::uint32_t second;
};

// Bytes of two words, numbered from the top of the first one: 0 1 2 3, 4 5 6 7.
template <int kFirst, int kSecond, int kThird, int kFourth>
SENNIT_HOST_DEVICE inline std::uint32_t bytes_of(Nibbles words) {
#if defined(__CUDA_ARCH__)
  // The instruction numbers them from the other end.
  constexpr int kSelector =
      (7 - kFirst) << 12 | (7 - kSecond) << 8 | (7 - kThird) << 4 | (7 - kFourth);
  return __byte_perm(words.second, words.first, kSelector);
#else
  const std::uint64_t both = static_cast<std::uint64_t>(words.first) << 32 | words.second;
  return static_cast<std::uint32_t>(both >> (56 - 8 * kFirst) & 0xff) << 24 |
         static_cast<std::uint32_t>(both >> (56 - 8 * kSecond) & 0xff) << 16 |
         static_cast<std::uint32_t>(both >> (56 - 8 * kThird) & 0xff) << 8 |
         static_cast<std::uint32_t>(both >> (56 - 8 * kFourth) & 0xff);
#endif
}

// The second kShift bits of each 2 kShift of the first word for the first ones of the second word.
template <int kShift>
SENNIT_HOST_DEVICE inline Nibbles exchanged(Nibbles words, std::uint32_t second_bits) {
  const std::uint32_t differing = (words.first ^ words.second >> kShift) & second_bits;
  return {words.first ^ differing, words.second ^ differing << kShift};
}

SENNIT_HOST_DEVICE inline Nibbles to_nibbles(const std::uint32_t (&coefficients)[4]) {
#if SENNIT_BIT_DEPOSIT
  const std::uint64_t nibbles = _pdep_u64(coefficients[0] >> 16, 0x8888888888888888U) |
                                _pdep_u64(coefficients[1] >> 16, 0x4444444444444444U) |
                                _pdep_u64(coefficients[2] >> 16, 0x2222222222222222U) |
                                _pdep_u64(coefficients[3] >> 16, 0x1111111111111111U);
  return {static_cast<std::uint32_t>(nibbles >> 32), static_cast<std::uint32_t>(nibbles)};
#else
  Nibbles words = {bytes_of<0, 1, 4, 5>({coefficients[0], coefficients[1]}),
                   bytes_of<0, 1, 4, 5>({coefficients[2], coefficients[3]})};
  words = exchanged<2>(words, 0x33333333U);                            // [j1 | i0 j3 j2 i1 j0]
  words = {bytes_of<0, 1, 4, 5>(words), bytes_of<2, 3, 6, 7>(words)};  // [i0 | j1 j3 j2 i1 j0]
  words = exchanged<1>(words, 0x55555555U);                            // [j0 | j1 j3 j2 i1 i0]
  words = exchanged<4>(words, 0x0f0f0f0fU);                            // [j2 | j1 j3 j0 i1 i0]
  return {bytes_of<0, 2, 4, 6>(words), bytes_of<1, 3, 5, 7>(words)};   // [j3 | j2 j1 j0 i1 i0]
#endif
}

SENNIT_HOST_DEVICE inline void from_nibbles(Nibbles words, std::uint32_t (&coefficients)[4]) {
#if SENNIT_BIT_DEPOSIT
  const std::uint64_t nibbles = static_cast<std::uint64_t>(words.first) << 32 | words.second;
  coefficients[0] = static_cast<std::uint32_t>(_pext_u64(nibbles, 0x8888888888888888U)) << 16;
  coefficients[1] = static_cast<std::uint32_t>(_pext_u64(nibbles, 0x4444444444444444U)) << 16;
  coefficients[2] = static_cast<std::uint32_t>(_pext_u64(nibbles, 0x2222222222222222U)) << 16;
  coefficients[3] = static_cast<std::uint32_t>(_pext_u64(nibbles, 0x1111111111111111U)) << 16;
#else
  words = {bytes_of<0, 4, 1, 5>(words), bytes_of<2, 6, 3, 7>(words)};
  words = exchanged<4>(words, 0x0f0f0f0fU);
  words = exchanged<1>(words, 0x55555555U);
  words = {bytes_of<0, 1, 4, 5>(words), bytes_of<2, 3, 6, 7>(words)};
  words = exchanged<2>(words, 0x33333333U);
  coefficients[0] = words.first & 0xffff0000U;
  coefficients[1] = words.first << 16;
  coefficients[2] = words.second & 0xffff0000U;
  coefficients[3] = words.second << 16;
#endif
}

}  // namespace sennit::codec
