// One block of the lossless codec `exact`: 32 floats of 16 bits, of which neighbours have exponents
// close to each other. Compiled for the host and for devices.
//
// A block has a header of 12 bits and words of 32 bits, one a bit plane: bit i of each belongs to
// value i. The first planes are sign and mantissa of the values, lowest bit first, then come the
// bits of the distance of each value's exponent to the largest exponent of the block, as many as
// the longest distance needs. The header has the largest exponent in its lower 8 bits and above it
// how the distances are written:
//   0 to the type's number of exponent bits   the width of a distance
//   8 + w, for widths w from 1 on             the width w, and a distance of all ones says that the
//                                             exponent is 0 (zeros among other numbers)
// Nothing is lost, NaNs and zeros with a sign included. A block that does not shrink has the full
// width, and so 32 times 16 bits besides its header.
//
// The idea, to store exponents by what differs: e.g. Y. Hao et al., "NeuZip: Memory-Efficient
// Training and Inference with Dynamic Compression of Neural Networks" (2024), which codes them by
// entropy instead.
#pragma once

#include "types/element.hpp"
#include "types/host_device.hpp"

#include <cstdint>

namespace sennit::codec {

inline constexpr int kExactValues = 32;
inline constexpr int kExactHeaderBits = 12;
inline constexpr int kMostPlanes = 16;

template <typename Float>
struct ExactFormat;
template <>
struct ExactFormat<Bfloat16> {
  static constexpr int kExponentBits = 8;
  static constexpr int kMantissaBits = 7;
};
template <>
struct ExactFormat<Float16> {
  static constexpr int kExponentBits = 5;
  static constexpr int kMantissaBits = 10;
};

// How the exponents of a block are written.
struct ExactHeader {
  int largest = 0;         // exponent, as it stands in the values
  int width = 0;           // bits of a distance
  bool has_zeros = false;  // a distance of all ones stands for the exponent 0

  [[nodiscard]] SENNIT_HOST_DEVICE std::uint32_t bits() const {
    const int how = has_zeros ? 8 + width : width;
    return static_cast<std::uint32_t>(largest | how << 8);
  }
  SENNIT_HOST_DEVICE static ExactHeader of_bits(std::uint32_t bits) {
    const int how = static_cast<int>(bits >> 8 & 15);
    return {static_cast<int>(bits & 0xff), how > 8 ? how - 8 : how, how > 8};
  }
};

SENNIT_HOST_DEVICE constexpr int bit_width(unsigned value) {
  int width = 0;
  for (; value != 0; value >>= 1) {
    ++width;
  }
  return width;
}

// Eight bytes as a matrix of bits, transposed: bit j of byte i becomes bit i of byte j. After H. S.
// Warren, "Hacker's Delight", section 7-3.
SENNIT_HOST_DEVICE inline std::uint64_t transposed(std::uint64_t bits) {
  std::uint64_t differing = (bits ^ bits >> 7) & 0x00aa00aa00aa00aaU;
  bits ^= differing ^ differing << 7;
  differing = (bits ^ bits >> 14) & 0x0000cccc0000ccccU;
  bits ^= differing ^ differing << 14;
  differing = (bits ^ bits >> 28) & 0x00000000f0f0f0f0U;
  return bits ^ differing ^ differing << 28;
}

template <typename Float>
struct ExactBlock {
  using Format = ExactFormat<Float>;
  static constexpr int kSignPlane = Format::kMantissaBits;
  static constexpr int kRestBits = Format::kMantissaBits + 1;  // mantissa and sign
  static constexpr unsigned kExponents = (1U << Format::kExponentBits) - 1;
  static constexpr unsigned kMantissas = (1U << Format::kMantissaBits) - 1;

  SENNIT_HOST_DEVICE static int planes(const ExactHeader& header) {
    return kRestBits + header.width;
  }

  // Whether the type has a header like this; no other is ever written.
  SENNIT_HOST_DEVICE static bool is_valid(const ExactHeader& header) {
    const int widest = header.has_zeros ? Format::kExponentBits - 1 : Format::kExponentBits;
    return header.width <= widest && static_cast<unsigned>(header.largest) <= kExponents;
  }

  // Writes the planes that planes(header) counts, and returns the header.
  SENNIT_HOST_DEVICE static ExactHeader encode(const Float (&values)[kExactValues],
                                               std::uint32_t (&planes)[kMostPlanes]) {
    const ExactHeader header = header_of(values);
    const unsigned escape = (1U << header.width) - 1;
    unsigned codes[kExactValues];
    for (int i = 0; i < kExactValues; ++i) {
      const unsigned bits = values[i].bits;
      const unsigned exponent = bits >> Format::kMantissaBits & kExponents;
      const bool is_escaped = header.has_zeros && exponent == 0;
      const unsigned distance =
          is_escaped ? escape : static_cast<unsigned>(header.largest) - exponent;
      codes[i] = (bits & kMantissas) | (bits >> 15) << kSignPlane | distance << kRestBits;
    }
    to_planes(codes, planes);
    return header;
  }

  SENNIT_HOST_DEVICE static void decode(const ExactHeader& header,
                                        const std::uint32_t (&planes)[kMostPlanes],
                                        Float (&values)[kExactValues]) {
    const unsigned escape = (1U << header.width) - 1;
    unsigned codes[kExactValues];
    from_planes(planes, codes);
    for (int i = 0; i < kExactValues; ++i) {
      const unsigned distance = codes[i] >> kRestBits;
      const bool is_escaped = header.has_zeros && distance == escape;
      const unsigned exponent =
          is_escaped ? 0 : (static_cast<unsigned>(header.largest) - distance) & kExponents;
      values[i].bits =
          static_cast<std::uint16_t>((codes[i] & kMantissas) | exponent << Format::kMantissaBits |
                                     (codes[i] >> kSignPlane & 1) << 15);
    }
  }

 private:
  SENNIT_HOST_DEVICE static ExactHeader header_of(const Float (&values)[kExactValues]) {
    unsigned largest = 0;
    unsigned least = kExponents;
    unsigned least_not_zero = kExponents;
    for (const Float value : values) {
      const unsigned exponent = value.bits >> Format::kMantissaBits & kExponents;
      largest = largest > exponent ? largest : exponent;
      least = least < exponent ? least : exponent;
      const unsigned other = exponent == 0 ? kExponents : exponent;
      least_not_zero = least_not_zero < other ? least_not_zero : other;
    }
    const int width = bit_width(largest - least);
    if (least == 0 && largest != 0) {
      // One more than the longest distance: the code of all ones is taken.
      const int width_beside_zeros = bit_width(largest - least_not_zero + 1);
      if (width_beside_zeros < width) {
        return {static_cast<int>(largest), width_beside_zeros, true};
      }
    }
    return {static_cast<int>(largest), width, false};
  }

  // Eight values at a time, their lower and their upper bytes.
  SENNIT_HOST_DEVICE static void to_planes(const unsigned (&codes)[kExactValues],
                                           std::uint32_t (&planes)[kMostPlanes]) {
    for (std::uint32_t& plane : planes) {
      plane = 0;
    }
    for (int begin = 0; begin < kExactValues; begin += 8) {
      std::uint64_t lower = 0;
      std::uint64_t upper = 0;
      for (int i = 0; i < 8; ++i) {
        lower |= static_cast<std::uint64_t>(codes[begin + i] & 0xff) << (8 * i);
        upper |= static_cast<std::uint64_t>(codes[begin + i] >> 8 & 0xff) << (8 * i);
      }
      lower = transposed(lower);
      upper = transposed(upper);
      for (int plane = 0; plane < 8; ++plane) {
        planes[plane] |= static_cast<std::uint32_t>(lower >> (8 * plane) & 0xff) << begin;
        planes[8 + plane] |= static_cast<std::uint32_t>(upper >> (8 * plane) & 0xff) << begin;
      }
    }
  }

  SENNIT_HOST_DEVICE static void from_planes(const std::uint32_t (&planes)[kMostPlanes],
                                             unsigned (&codes)[kExactValues]) {
    for (int begin = 0; begin < kExactValues; begin += 8) {
      std::uint64_t lower = 0;
      std::uint64_t upper = 0;
      for (int plane = 0; plane < 8; ++plane) {
        lower |= static_cast<std::uint64_t>(planes[plane] >> begin & 0xff) << (8 * plane);
        upper |= static_cast<std::uint64_t>(planes[8 + plane] >> begin & 0xff) << (8 * plane);
      }
      lower = transposed(lower);
      upper = transposed(upper);
      for (int i = 0; i < 8; ++i) {
        codes[begin + i] = static_cast<unsigned>(lower >> (8 * i) & 0xff) |
                           static_cast<unsigned>(upper >> (8 * i) & 0xff) << 8;
      }
    }
  }
};

}  // namespace sennit::codec
