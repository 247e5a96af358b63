// ZFP in one dimension at a fixed rate, as its description has it: bit by bit and plane by plane.
// What the tests compare the coder with, whose runs of planes take another way.
#pragma once

#include "codec/real_format.hpp"
#include "codec/zfp_block.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sennit::codec {

template <typename Real>
using Four = std::array<Real, 4>;

// Bits in their order; what would be behind the end is not kept, and reads as zero.
class BitString {
 public:
  explicit BitString(std::size_t size) : bits_(size) {}

  void put(std::uint64_t bits, int count) {
    for (int i = 0; i < count && at_ < bits_.size(); ++i) {
      bits_[at_++] = (bits >> i & 1) != 0;
    }
  }
  [[nodiscard]] std::uint64_t take(int count) {
    std::uint64_t bits = 0;
    for (int i = 0; i < count && at_ < bits_.size(); ++i) {
      bits |= static_cast<std::uint64_t>(bits_[at_++] ? 1 : 0) << i;
    }
    return bits;
  }
  [[nodiscard]] bool is_at_end() const { return at_ == bits_.size(); }

  [[nodiscard]] std::vector<unsigned char> bytes() const {
    std::vector<unsigned char> bytes(bits_.size() / 8);
    for (std::size_t i = 0; i < bits_.size(); ++i) {
      bytes[i / 8] = static_cast<unsigned char>(bytes[i / 8] | (bits_[i] ? 1 : 0) << (i % 8));
    }
    return bytes;
  }
  static BitString of(const std::vector<unsigned char>& bytes) {
    BitString string(bytes.size() * 8);
    for (const unsigned char byte : bytes) {
      string.put(byte, 8);
    }
    string.at_ = 0;
    return string;
  }

 private:
  std::vector<bool> bits_;
  std::size_t at_ = 0;
};

template <typename Real>
void put_planes(const Four<BitsOf<Real>>& coefficients, BitString& to) {
  int shown = 0;
  for (int plane = RealFormat<Real>::kWidth - 1; plane >= 0 && !to.is_at_end(); --plane) {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      bits |= static_cast<std::uint64_t>(coefficients[i] >> plane & 1) << i;
    }
    to.put(bits, shown);
    bits >>= shown;
    while (shown < 4) {
      to.put(bits != 0 ? 1 : 0, 1);
      if (bits == 0) {
        break;
      }
      for (; shown < 3 && (bits & 1) == 0; ++shown, bits >>= 1) {
        to.put(0, 1);
      }
      if (shown < 3) {
        to.put(1, 1);
      }
      ++shown;
      bits >>= 1;
    }
  }
}

template <typename Real>
Four<BitsOf<Real>> take_planes(BitString& from) {
  Four<BitsOf<Real>> coefficients{};
  int shown = 0;
  for (int plane = RealFormat<Real>::kWidth - 1; plane >= 0 && !from.is_at_end(); --plane) {
    std::uint64_t bits = from.take(shown);
    while (shown < 4 && !from.is_at_end() && from.take(1) == 1) {
      while (shown < 3 && !from.is_at_end() && from.take(1) == 0) {
        ++shown;
      }
      bits |= std::uint64_t{1} << shown++;
    }
    for (std::size_t i = 0; i < 4; ++i) {
      coefficients[i] |= static_cast<BitsOf<Real>>(bits >> i & 1) << plane;
    }
  }
  return coefficients;
}

template <typename Real>
std::vector<unsigned char> plain_zfp_encode(const Four<Real>& values, int rate) {
  using Format = RealFormat<Real>;
  BitString string(static_cast<std::size_t>(rate) * 4);
  Real most = 0;
  for (const Real value : values) {
    most = std::max(most, std::abs(value));
  }
  if (most == 0) {
    return string.bytes();
  }
  const int exponent = std::ilogb(most) + 1;
  string.put(1, 1);
  string.put(static_cast<unsigned>(exponent + Format::kBias), Format::kExponentBits);
  typename Format::Int integers[4];
  for (std::size_t i = 0; i < 4; ++i) {
    integers[i] = static_cast<typename Format::Int>(
        std::trunc(std::ldexp(values[i], Format::kWidth - 2 - exponent)));
  }
  transform(integers);
  Four<BitsOf<Real>> coefficients;
  for (std::size_t i = 0; i < 4; ++i) {
    coefficients[i] = to_negabinary<Real>(integers[i]);
  }
  put_planes<Real>(coefficients, string);
  return string.bytes();
}

// Of a block with flag 1 and an exponent field that is not 0.
template <typename Real>
Four<Real> plain_zfp_decode(const std::vector<unsigned char>& block) {
  using Format = RealFormat<Real>;
  BitString string = BitString::of(block);
  static_cast<void>(string.take(1));
  const int exponent = static_cast<int>(string.take(Format::kExponentBits)) - Format::kBias;
  const Four<BitsOf<Real>> coefficients = take_planes<Real>(string);
  typename Format::Int integers[4];
  for (std::size_t i = 0; i < 4; ++i) {
    integers[i] = from_negabinary<Real>(coefficients[i]);
  }
  transform_back(integers);
  const Real scale = std::ldexp(Real{1}, exponent - (Format::kWidth - 2));
  Four<Real> values;
  for (std::size_t i = 0; i < 4; ++i) {
    values[i] = static_cast<Real>(integers[i]) * scale;
  }
  return values;
}

}  // namespace sennit::codec
