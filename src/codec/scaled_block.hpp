// Blocks of 32 values that share a scale: q8 and q16 (integers), mx8 (8-bit floats). Compiled for
// the host and for devices.
//
//   Bfloat16 values[32];
//   unsigned char block[ScaledIntegers<std::int8_t, Bfloat16>::kBytes];
//   ScaledIntegers<std::int8_t, Bfloat16>::encode(values, block);
//
// mx8 is MXFP8 with E4M3 elements of the OCP Microscaling Formats specification 1.0 (2023); its
// scale is chosen so that nothing saturates. Integers with a scale per block: "block floating
// point", e.g. T. Dettmers, M. Lewis, S. Shleifer, L. Zettlemoyer, "8-bit Optimizers via Block-wise
// Quantization", ICLR 2022.
//
// A block with a NaN or an infinity decodes to NaNs. A block whose largest magnitude is below
// 2^-100 (float64: 2^-962) is written as zeros, so that scales and their inverses stay normal
// numbers. A decoded value is never beyond the largest finite number of its type, to which rounding
// could carry it.
#pragma once

#include "codec/real_format.hpp"
#include "types/element.hpp"
#include "types/host_device.hpp"
#include "types/rounded.hpp"

#include <cstdint>
#include <type_traits>

namespace sennit::codec {

inline constexpr int kScaledValues = 32;

// How an element type is computed with: 16-bit floats as float.
template <typename Element>
struct Computed {
  using Real = float;
  SENNIT_HOST_DEVICE static float load(Element element) { return widen(element); }
  SENNIT_HOST_DEVICE static Element store(float value) { return narrow(value, Element{}); }
};
template <>
struct Computed<float> {
  using Real = float;
  SENNIT_HOST_DEVICE static float load(float value) { return value; }
  SENNIT_HOST_DEVICE static float store(float value) { return value; }
};
template <>
struct Computed<double> {
  using Real = double;
  SENNIT_HOST_DEVICE static double load(double value) { return value; }
  SENNIT_HOST_DEVICE static double store(double value) { return value; }
};

template <typename Element>
inline constexpr auto kLargestFinite = real_of<float>(0x7f7fffffU);
template <>
inline constexpr auto kLargestFinite<double> = real_of<double>(0x7fefffffffffffffU);
template <>
inline constexpr auto kLargestFinite<Bfloat16> = real_of<float>(0x7f7f0000U);
template <>
inline constexpr auto kLargestFinite<Float16> = 65504.0F;

// A NaN stays one. Without a branch, so that loops become vectors.
template <typename Element, typename Real>
SENNIT_HOST_DEVICE inline Element stored_within_range(Real value) {
  using Bits = BitsOf<Real>;
  constexpr Bits kLargest = bits_of(Real{kLargestFinite<Element>});
  constexpr Bits kInfinity = FormatOf<Real>::kLastNumber;
  const Bits magnitude = magnitude_of(value);
  const Bits sign = bits_of(value) ^ magnitude;
  const bool is_beyond = static_cast<Bits>(magnitude - kLargest - 1) < kInfinity - kLargest;
  return Computed<Element>::store(real_of<Real>(sign | select(is_beyond, kLargest, magnitude)));
}

// What both families do first: the values to compute with, and the bits of the largest magnitude.
template <typename Element>
struct LoadedBlock {
  using Real = typename Computed<Element>::Real;
  using Bits = BitsOf<Real>;
  static constexpr Bits kInfinity = FormatOf<Real>::kLastNumber;
  static constexpr Bits kLeast =
      bits_of(std::is_same_v<Real, float> ? Real(0x1p-100) : Real(0x1p-962));

  SENNIT_HOST_DEVICE explicit LoadedBlock(const Element (&elements)[kScaledValues]) {
    for (int i = 0; i < kScaledValues; ++i) {
      values[i] = Computed<Element>::load(elements[i]);
      const Bits magnitude = magnitude_of(values[i]);
      most = most > magnitude ? most : magnitude;
    }
  }
  [[nodiscard]] SENNIT_HOST_DEVICE bool is_finite() const { return most < kInfinity; }
  [[nodiscard]] SENNIT_HOST_DEVICE bool is_zero() const { return most < kLeast; }

  Real values[kScaledValues];
  Bits most = 0;
};

template <typename Element>
SENNIT_HOST_DEVICE inline void fill(Element value, Element (&elements)[kScaledValues]) {
  for (Element& element : elements) {
    element = value;
  }
}

template <typename T>
SENNIT_HOST_DEVICE inline void store_bytes(const T& value, unsigned char* to) {
  __builtin_memcpy(to, &value, sizeof(T));
}
template <typename T>
SENNIT_HOST_DEVICE inline T load_bytes(const unsigned char* from) {
  T value;
  __builtin_memcpy(&value, from, sizeof(T));
  return value;
}

// q8, q16: the scale, then 32 integers. The scale is the upper half of the bits of the type that is
// computed with (bfloat16 for float), the largest magnitude over the largest integer, rounded up;
// a NaN's where the block is none of finite numbers. Rounding is to nearest even.
template <typename Integer, typename ElementType>
struct ScaledIntegers {
  using Element = ElementType;
  using Real = typename Computed<Element>::Real;
  using Bits = BitsOf<Real>;
  using Scale = std::conditional_t<sizeof(Real) == 4, std::uint16_t, std::uint32_t>;
  static constexpr int kValues = kScaledValues;
  static constexpr int kIntegersAt = sizeof(Scale);
  static constexpr int kBytes = kIntegersAt + kScaledValues * static_cast<int>(sizeof(Integer));
  static constexpr int kHalf = 4 * static_cast<int>(sizeof(Real));  // of the bits
  static constexpr Integer kMost = sizeof(Integer) == 1 ? 127 : 32767;

  SENNIT_HOST_DEVICE static void encode(const Element (&elements)[kScaledValues],
                                        unsigned char* block) {
    const LoadedBlock<Element> loaded(elements);
    const Scale scale = scale_of(loaded);
    const bool has_integers = loaded.is_finite() && !loaded.is_zero();
    const Real factor =
        has_integers ? rounded::divide(Real{1}, real_of<Real>(static_cast<Bits>(scale) << kHalf))
                     : Real{0};
    Integer integers[kScaledValues];
    for (int i = 0; i < kScaledValues; ++i) {
      const Real scaled = rounded::multiply(loaded.values[i], factor);
      // The bits of a NaN differ from processor to processor.
      integers[i] = nearest_integer(loaded.is_finite() ? scaled : Real{0});
    }
    store_bytes(scale, block);
    store_bytes(integers, block + kIntegersAt);
  }

  SENNIT_HOST_DEVICE static void decode(const unsigned char* block,
                                        Element (&elements)[kScaledValues]) {
    const auto scale = static_cast<Bits>(load_bytes<Scale>(block)) << kHalf;
    if ((scale & (~Bits{0} >> 1)) >= FormatOf<Real>::kLastNumber) {
      fill(Computed<Element>::store(not_a_number<Real>()), elements);
      return;
    }
    Integer integers[kScaledValues];
    __builtin_memcpy(integers, block + kIntegersAt, sizeof(integers));
    for (int i = 0; i < kScaledValues; ++i) {
      elements[i] = stored_within_range<Element>(
          rounded::multiply(static_cast<Real>(integers[i]), real_of<Real>(scale)));
    }
  }

 private:
  SENNIT_HOST_DEVICE static Scale scale_of(const LoadedBlock<Element>& loaded) {
    if (!loaded.is_finite()) {
      return static_cast<Scale>(static_cast<Bits>(FormatOf<Real>::kNan) >> kHalf);
    }
    if (loaded.is_zero()) {
      return 0;
    }
    const Bits exact = bits_of(rounded::divide(real_of<Real>(loaded.most), Real{kMost}));
    return static_cast<Scale>((exact + ((Bits{1} << kHalf) - 1)) >> kHalf);
  }

  // Adding 1.5 * 2^(mantissa bits) leaves the nearest integer in the lowest places of the sum.
  SENNIT_HOST_DEVICE static Integer nearest_integer(Real value) {
    constexpr Real kRounder = std::is_same_v<Real, float> ? Real(0x1.8p23) : Real(0x1.8p52);
    return static_cast<Integer>(bits_of(rounded::add(value, kRounder)));
  }
};

// mx8: the scale, then 32 E4M3 floats. The scale is the least power of two with which the largest
// magnitude is at most 448, the largest E4M3 number; its exponent is stored with a bias of 127, and
// 255 marks a block that is none of finite numbers.
template <typename ElementType>
struct ScaledFloats {
  using Element = ElementType;
  static constexpr int kValues = kScaledValues;
  static constexpr int kBytes = 1 + kScaledValues;
  static constexpr unsigned char kNoScale = 255;

  SENNIT_HOST_DEVICE static void encode(const Element (&elements)[kScaledValues],
                                        unsigned char* block) {
    const LoadedBlock<Element> loaded(elements);
    const bool has_floats = loaded.is_finite() && !loaded.is_zero();
    const int exponent = has_floats ? exponent_of(loaded.most) : 0;
    const float factor = has_floats ? power_of_two<float>(2 * kFloatBias - exponent) : 0.0F;
    block[0] = loaded.is_finite() ? static_cast<unsigned char>(exponent) : kNoScale;
    for (int i = 0; i < kScaledValues; ++i) {
      const float scaled = rounded::multiply(loaded.values[i], factor);
      block[1 + i] = narrow(loaded.is_finite() ? scaled : 0.0F, Float8E4m3fn{}).bits;
    }
  }

  SENNIT_HOST_DEVICE static void decode(const unsigned char* block,
                                        Element (&elements)[kScaledValues]) {
    if (block[0] == kNoScale) {
      fill(Computed<Element>::store(not_a_number<float>()), elements);
      return;
    }
    // 2^-127 is below the normal numbers.
    const float scale = block[0] != 0 ? power_of_two<float>(block[0]) : 0x1p-127F;
    for (int i = 0; i < kScaledValues; ++i) {
      elements[i] =
          stored_within_range<Element>(rounded::multiply(widen(Float8E4m3fn{block[1 + i]}), scale));
    }
  }

 private:
  // 448 is 1.75 * 2^8: the exponent of the largest magnitude less 8, and one more if its mantissa
  // is above 1.75.
  SENNIT_HOST_DEVICE static int exponent_of(std::uint32_t most) {
    constexpr std::uint32_t kMantissa = (1U << kFloatMantissaBits) - 1;
    constexpr std::uint32_t kThreeQuarters = 3U << (kFloatMantissaBits - 2);
    return static_cast<int>((most + (kMantissa - kThreeQuarters)) >> kFloatMantissaBits) - 8;
  }
};

}  // namespace sennit::codec
