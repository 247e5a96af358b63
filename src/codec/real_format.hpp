// The bits of float and double as codecs separate them. Compiled for the host and for devices.
#pragma once

#include "types/element.hpp"
#include "types/host_device.hpp"

#include <cstdint>

namespace sennit::codec {

template <typename Real>
struct RealFormat;

template <>
struct RealFormat<float> {
  using Int = std::int32_t;
  using Bits = std::uint32_t;
  static constexpr int kWidth = 32;
  static constexpr int kExponentBits = 8;
  static constexpr int kMantissaBits = 23;
  static constexpr int kBias = 127;
};

template <>
struct RealFormat<double> {
  using Int = std::int64_t;
  using Bits = std::uint64_t;
  static constexpr int kWidth = 64;
  static constexpr int kExponentBits = 11;
  static constexpr int kMantissaBits = 52;
  static constexpr int kBias = 1023;
};

template <typename Real>
using BitsOf = typename RealFormat<Real>::Bits;

template <typename Real>
SENNIT_HOST_DEVICE constexpr BitsOf<Real> bits_of(Real value) {
  return __builtin_bit_cast(BitsOf<Real>, value);
}
template <typename Real>
SENNIT_HOST_DEVICE constexpr Real real_of(BitsOf<Real> bits) {
  return __builtin_bit_cast(Real, bits);
}

template <typename Real>
SENNIT_HOST_DEVICE constexpr BitsOf<Real> magnitude_of(Real value) {
  return bits_of(value) & (~BitsOf<Real>{0} >> 1);
}

template <typename Real>
SENNIT_HOST_DEVICE constexpr Real not_a_number() {
  return real_of<Real>(static_cast<BitsOf<Real>>(FormatOf<Real>::kNan));
}

// 2^(biased - kBias), where that is a normal number.
template <typename Real>
SENNIT_HOST_DEVICE constexpr Real power_of_two(int biased) {
  return real_of<Real>(static_cast<BitsOf<Real>>(biased) << RealFormat<Real>::kMantissaBits);
}

}  // namespace sennit::codec
