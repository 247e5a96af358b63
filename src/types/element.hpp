// The element types that C++ has none for, and their conversions to and from float. Compiled for
// the host and for devices; both give the same bits, with subnormal numbers, and whether or not the
// processor flushes subnormal floats to zero.
#pragma once

#include "types/host_device.hpp"
#include "types/rounded.hpp"

#include <cstdint>

namespace sennit {

// A byte; any but zero is true.
struct Bool {
  std::uint8_t bits;
};

struct Float16 {  // IEEE 754 binary16
  std::uint16_t bits;
};

struct Bfloat16 {  // the upper half of a float
  std::uint16_t bits;
};

struct Float8E4m3fn {  // OCP: 4 bits of exponent, 3 of mantissa, no infinity, one NaN
  std::uint8_t bits;
};

struct Float8E5m2 {  // OCP: the upper half of a Float16
  std::uint8_t bits;
};

template <typename Real>
struct Complex {
  Real real;
  Real imaginary;
};

// The bits of floats, without the sign. kLastNumber is the greatest pattern that is no NaN, kNan
// the canonical one.
struct Float64Format {
  static constexpr std::uint64_t kLastNumber = 0x7ff0000000000000;
  static constexpr std::uint64_t kNan = 0x7ff8000000000000;
};

struct Float32Format {
  static constexpr std::uint32_t kLastNumber = 0x7f800000;
  static constexpr std::uint32_t kNan = 0x7fc00000;
};

struct Bfloat16Format {
  static constexpr std::uint32_t kLastNumber = 0x7f80;
  static constexpr std::uint32_t kNan = 0x7fc0;
};

struct Float16Format {
  static constexpr int kMantissaBits = 10;
  static constexpr int kBias = 15;
  static constexpr int kSignBit = 15;
  static constexpr std::uint32_t kLargestFinite = 0x7bff;
  static constexpr std::uint32_t kLastNumber = 0x7c00;  // infinity
  static constexpr std::uint32_t kNan = 0x7e00;
  static constexpr std::uint32_t kOverflow = kLastNumber;
};

// What is too large for 8 bits becomes the largest finite number, as it does on GPUs
// (__NV_SATFINITE) and in NCCL.
struct Float8E4m3fnFormat {
  static constexpr int kMantissaBits = 3;
  static constexpr int kBias = 7;
  static constexpr int kSignBit = 7;
  static constexpr std::uint32_t kLargestFinite = 0x7e;
  static constexpr std::uint32_t kLastNumber = kLargestFinite;
  static constexpr std::uint32_t kNan = 0x7f;
  static constexpr std::uint32_t kOverflow = kLargestFinite;
};

struct Float8E5m2Format {
  static constexpr int kMantissaBits = 2;
  static constexpr int kBias = 15;
  static constexpr int kSignBit = 7;
  static constexpr std::uint32_t kLargestFinite = 0x7b;
  static constexpr std::uint32_t kLastNumber = 0x7c;  // infinity
  static constexpr std::uint32_t kNan = 0x7e;
  static constexpr std::uint32_t kOverflow = kLargestFinite;
};

template <typename Float>
struct FormatOf;
template <>
struct FormatOf<double> : Float64Format {};
template <>
struct FormatOf<float> : Float32Format {};
template <>
struct FormatOf<Bfloat16> : Bfloat16Format {};
template <>
struct FormatOf<Float16> : Float16Format {};
template <>
struct FormatOf<Float8E4m3fn> : Float8E4m3fnFormat {};
template <>
struct FormatOf<Float8E5m2> : Float8E5m2Format {};

inline constexpr std::uint32_t kFloatMagnitude = 0x7fffffff;
inline constexpr std::uint32_t kFloatInfinity = Float32Format::kLastNumber;
inline constexpr std::uint32_t kFloatNan = Float32Format::kNan;
inline constexpr int kFloatMantissaBits = 23;
inline constexpr int kFloatBias = 127;

SENNIT_HOST_DEVICE constexpr std::uint32_t float_bits(float value) {
  return __builtin_bit_cast(std::uint32_t, value);
}
SENNIT_HOST_DEVICE constexpr float float_of_bits(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

// Without a branch, whatever the compiler makes of one: loops over elements must become vectors.
// Where integers of 64 bits have no vectors to compare them in, the plain form is faster.
template <typename Bits>
SENNIT_HOST_DEVICE constexpr Bits select(bool condition, Bits yes, Bits no) {
  if constexpr (sizeof(Bits) == 8) {
    return condition ? yes : no;
  }
  const auto mask = static_cast<Bits>(-static_cast<Bits>(condition));
  return static_cast<Bits>((yes & mask) | (no & ~mask));
}

// Both directions compute every case and select.
template <typename Format>
SENNIT_HOST_DEVICE inline float widen_bits(std::uint32_t bits) {
  constexpr int kShift = kFloatMantissaBits - Format::kMantissaBits;
  constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(kFloatBias - Format::kBias)
                                    << kFloatMantissaBits;
  constexpr std::uint32_t kExponentOne = 1U << kFloatMantissaBits;
  const std::uint32_t magnitude = bits & ((1U << Format::kSignBit) - 1);
  const std::uint32_t sign = (bits >> Format::kSignBit) << 31;
  const std::uint32_t aligned = magnitude << kShift;
  const std::uint32_t normal = aligned + kRebias;
  // A subnormal number m * 2^e is (1 + m) * 2^e - 2^e for an m below 1.
  const std::uint32_t subnormal = float_bits(
      rounded::add(float_of_bits(normal + kExponentOne), -float_of_bits(kRebias + kExponentOne)));
  const std::uint32_t finite = select(aligned < kExponentOne, subnormal, normal);
  const std::uint32_t special = select(magnitude > Format::kLastNumber, kFloatNan, kFloatInfinity);
  return float_of_bits(select(magnitude > Format::kLargestFinite, special, finite) | sign);
}

// To the nearest, ties to even. NaN becomes the canonical one.
template <typename Format>
SENNIT_HOST_DEVICE inline std::uint32_t narrow_bits(float value) {
  constexpr int kShift = kFloatMantissaBits - Format::kMantissaBits;
  constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(kFloatBias - Format::kBias)
                                    << kFloatMantissaBits;
  constexpr std::uint32_t kSmallestNormal = kRebias + (1U << kFloatMantissaBits);
  // The float whose last place is the smallest subnormal number: adding it rounds to that place.
  constexpr std::uint32_t kRounder =
      static_cast<std::uint32_t>(kFloatBias + kFloatMantissaBits + 1 - Format::kBias -
                                 Format::kMantissaBits)
      << kFloatMantissaBits;
  const std::uint32_t bits = float_bits(value);
  const std::uint32_t magnitude = bits & kFloatMagnitude;
  const std::uint32_t sign = (bits >> 31) << Format::kSignBit;
  const std::uint32_t subnormal =
      float_bits(rounded::add(float_of_bits(magnitude), float_of_bits(kRounder))) - kRounder;
  const std::uint32_t is_odd = (magnitude >> kShift) & 1;
  const std::uint32_t normal =
      (magnitude - kRebias + ((1U << (kShift - 1)) - 1) + is_odd) >> kShift;
  const std::uint32_t nearest = select(magnitude < kSmallestNormal, subnormal, normal);
  const std::uint32_t bounded =
      select(nearest > Format::kLargestFinite, Format::kOverflow, nearest);
  return select(magnitude > kFloatInfinity, Format::kNan, bounded | sign);
}

// GPUs have instructions for conversions, which take less code and give the same bits. Only a NaN
// would be another one, so that is replaced.
SENNIT_HOST_DEVICE inline float widen(Float16 value) {
#if defined(__CUDA_ARCH__)
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
  const std::uint32_t nan = kFloatNan | ((value.bits & 0x8000U) << 16);
  return wide != wide ? float_of_bits(nan) : wide;
#else
  return widen_bits<Float16Format>(value.bits);
#endif
}
SENNIT_HOST_DEVICE inline float widen(Float8E4m3fn value) {
  return widen_bits<Float8E4m3fnFormat>(value.bits);
}
SENNIT_HOST_DEVICE inline float widen(Float8E5m2 value) {
  return widen_bits<Float8E5m2Format>(value.bits);
}
SENNIT_HOST_DEVICE inline float widen(Bfloat16 value) {
  return float_of_bits(static_cast<std::uint32_t>(value.bits) << 16);
}

// narrow(value, Float16{}): the second argument names the type. Every NaN becomes the canonical
// one.
SENNIT_HOST_DEVICE inline Float16 narrow(float value, Float16 /*type*/) {
#if defined(__CUDA_ARCH__)
  std::uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return {static_cast<std::uint16_t>(value != value ? Float16Format::kNan : bits)};
#else
  return {static_cast<std::uint16_t>(narrow_bits<Float16Format>(value))};
#endif
}
SENNIT_HOST_DEVICE inline Float8E4m3fn narrow(float value, Float8E4m3fn /*type*/) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  std::uint16_t bits;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(0.0F), "f"(value));
  return {static_cast<std::uint8_t>(value != value ? Float8E4m3fnFormat::kNan : bits)};
#else
  return {static_cast<std::uint8_t>(narrow_bits<Float8E4m3fnFormat>(value))};
#endif
}
SENNIT_HOST_DEVICE inline Float8E5m2 narrow(float value, Float8E5m2 /*type*/) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  std::uint16_t bits;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(0.0F), "f"(value));
  return {static_cast<std::uint8_t>(value != value ? Float8E5m2Format::kNan : bits)};
#else
  return {static_cast<std::uint8_t>(narrow_bits<Float8E5m2Format>(value))};
#endif
}
SENNIT_HOST_DEVICE inline Bfloat16 narrow(float value, Bfloat16 /*type*/) {
#if defined(__CUDA_ARCH__)
  std::uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return {static_cast<std::uint16_t>(value != value ? Bfloat16Format::kNan : bits)};
#else
  const std::uint32_t bits = float_bits(value);
  // The largest floats round up to infinity by themselves.
  const std::uint32_t nearest = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const bool is_nan = (bits & kFloatMagnitude) > kFloatInfinity;
  return {static_cast<std::uint16_t>(is_nan ? kFloatNan >> 16 : nearest)};
#endif
}

}  // namespace sennit
