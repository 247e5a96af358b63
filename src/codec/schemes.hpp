// What a row of codecs.def means at compile time: for each element type whether the codec takes it,
// and what a block of it is. Compiled for the host and for devices.
#pragma once

#include "codec/exact_block.hpp"
#include "codec/scaled_block.hpp"
#include "codec/zfp_block.hpp"
#include "types/element.hpp"
#include "types/host_device.hpp"

#include <cstdint>
#include <type_traits>

namespace sennit::codec {

// A complex number is two real ones.
template <typename Element>
struct RealPart {
  using Type = Element;
  static constexpr int kParts = 1;
};
template <typename Real>
struct RealPart<Complex<Real>> {
  using Type = Real;
  static constexpr int kParts = 2;
};

// One of these types.
template <typename T, typename... Types>
inline constexpr bool kIsOneOf = (std::is_same_v<T, Types> || ...);

// A scheme has for an element type
//   kTakes     whether the codec takes it
//   Block      how a block is coded: Element, kValues, kBytes, encode(), decode(), and the largest
//              error of a value as a part of the largest magnitude in its block, kError
//   kStreams   how many real numbers stand side by side whose blocks have each their own
// `exact`, whose blocks vary in length, has no Block of this kind.

template <int kRate, typename Real>
struct ZfpBlock {
  using Element = Real;
  static constexpr int kValues = 4;
  static constexpr int kBytes = kRate / 2;
  // Lindstrom's bound for the planes that are cut off, with the bits of the header in their place.
  static constexpr double kError = (sizeof(Real) == 4 ? 160.0 : 320.0) / (1ULL << kRate);

  SENNIT_HOST_DEVICE static void encode(const Real (&values)[kValues], unsigned char* block) {
    const ZfpWord<kRate, Real> word = encode_zfp<kRate>(values);
    __builtin_memcpy(block, &word, kBytes);
  }
  // A device passes a copy of the table in its own memory.
  SENNIT_HOST_DEVICE static void decode(const unsigned char* block,
                                        Real (&values)[kValues],
                                        const unsigned char* table = kPlaneTable.entries) {
    ZfpWord<kRate, Real> word = 0;
    __builtin_memcpy(&word, block, kBytes);
    decode_zfp<kRate>(word, table, values);
  }
  // Behind the last value: as libzfp fills a block.
  SENNIT_HOST_DEVICE static void pad(Real (&values)[kValues], int count) {
    values[1] = count > 1 ? values[1] : values[0];
    values[2] = count > 2 ? values[2] : values[1];
    values[3] = values[0];
  }
};

template <typename Scaled>
struct ScaledBlock : Scaled {
  using typename Scaled::Element;
  SENNIT_HOST_DEVICE static void pad(Element (&values)[kScaledValues], int count) {
    SENNIT_UNROLL
    for (int i = 0; i < kScaledValues; ++i) {
      values[i] = i < count ? values[i] : Element{};
    }
  }
};

template <int kRate>
struct ZfpScheme {
  template <typename T>
  using Real = typename RealPart<T>::Type;
  template <typename T>
  static constexpr bool kTakes =
      std::is_same_v<Real<T>, double> || (std::is_same_v<Real<T>, float> && kRate < 32);
  template <typename T>
  using Block = ZfpBlock<kRate, Real<T>>;
  // Real and imaginary parts are smooth each for itself, and not next to each other.
  template <typename T>
  static constexpr int kStreams = RealPart<T>::kParts;
};

// Half of the last place of a normal 16-bit float, to which a decoded value is rounded.
template <typename Real>
inline constexpr double kRounding = 0;
template <>
inline constexpr double kRounding<Bfloat16> = 0x1p-8;
template <>
inline constexpr double kRounding<Float16> = 0x1p-11;

template <typename Integer>
struct IntegerScheme {
  template <typename T>
  using Real = typename RealPart<T>::Type;
  template <typename T>
  static constexpr bool kTakes = sizeof(Integer) == 1 ? kIsOneOf<Real<T>, float, Float16, Bfloat16>
                                                      : kIsOneOf<Real<T>, float, double>;
  template <typename T>
  struct Block : ScaledBlock<ScaledIntegers<Integer, Real<T>>> {
    using Scaled = ScaledIntegers<Integer, Real<T>>;
    // 0.51 of a scale, which is rounded up by less than its last place.
    static constexpr double kScale =
        (1 + (sizeof(typename Scaled::Real) == 4 ? 0x1p-7 : 0x1p-20)) / Scaled::kMost;
    static constexpr double kError = 0.51 * kScale + kRounding<Real<T>>;
  };
  template <typename T>
  static constexpr int kStreams = 1;
};

struct FloatScheme {
  template <typename T>
  using Real = typename RealPart<T>::Type;
  template <typename T>
  static constexpr bool kTakes = kIsOneOf<Real<T>, float, Float16, Bfloat16>;
  template <typename T>
  struct Block : ScaledBlock<ScaledFloats<Real<T>>> {
    static constexpr double kError = 0x1p-4 + kRounding<Real<T>>;
  };
  template <typename T>
  static constexpr int kStreams = 1;
};

struct ExactScheme {
  template <typename T>
  static constexpr bool kTakes = kIsOneOf<T, Float16, Bfloat16>;
};

template <typename Scheme>
inline constexpr bool kIsExact = std::is_same_v<Scheme, ExactScheme>;

}  // namespace sennit::codec
