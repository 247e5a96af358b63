#include "codec/zfp_block.hpp"

#include "codec/codec.hpp"
#include "codec/coder.hpp"
#include "codec/testing/drawn_values.hpp"
#include "codec/testing/plain_zfp.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace sennit::codec {
namespace {

template <int kRateBits, typename RealType>
struct Case {
  using Real = RealType;
  static constexpr int kRate = kRateBits;
  static constexpr Codec kCodec = kRate == 4    ? Codec::kZfp4
                                  : kRate == 8  ? Codec::kZfp8
                                  : kRate == 16 ? Codec::kZfp16
                                  : kRate == 24 ? Codec::kZfp24
                                                : Codec::kZfp32;
  static constexpr Dtype kDtype = sizeof(Real) == 4 ? Dtype::kFloat32 : Dtype::kFloat64;
  static constexpr std::size_t kBytes = kRate / 2;

  static std::vector<unsigned char> encode(const Coder& coder, const std::vector<Real>& values) {
    std::vector<unsigned char> coded((values.size() + 3) / 4 * kBytes);
    EXPECT_EQ(coder.encode({kCodec, kDtype, values.data(), values.size(), coded.data()}),
              coded.size());
    return coded;
  }
  static std::vector<Real> decode(const Coder& coder, const std::vector<unsigned char>& coded) {
    std::vector<Real> values(coded.size() / kBytes * 4);
    EXPECT_TRUE(
        coder.decode({kCodec, kDtype, coded.data(), coded.size(), values.data(), values.size()}));
    return values;
  }
};

template <typename T>
class Zfp : public testing::Test {};
using Cases = testing::Types<Case<4, float>,
                             Case<8, float>,
                             Case<16, float>,
                             Case<24, float>,
                             Case<4, double>,
                             Case<8, double>,
                             Case<16, double>,
                             Case<24, double>,
                             Case<32, double>>;
TYPED_TEST_SUITE(Zfp, Cases);

// Four values of a kind, none too small for libzfp.
template <typename Real>
std::vector<Real> drawn_block(DrawnValues<Real>& drawn) {
  const Real least = std::ldexp(Real{1}, sizeof(Real) == 4 ? -98 : -962);
  while (true) {
    std::vector<Real> values = drawn.next(4);
    Real most = 0;
    for (const Real value : values) {
      most = std::max(most, std::abs(value));
    }
    if (most == 0 || most >= least) {
      return values;
    }
  }
}

TYPED_TEST(Zfp, WritesTheBitsOfThePlainCoder) {
  using Real = typename TypeParam::Real;
  DrawnValues<Real> drawn(11);
  for (int i = 0; i < 5000; ++i) {
    const std::vector<Real> values = drawn_block(drawn);
    const auto expected =
        plain_zfp_encode<Real>({values[0], values[1], values[2], values[3]}, TypeParam::kRate);
    for (const Coder& coder : coders()) {
      ASSERT_EQ(TypeParam::encode(coder, values), expected)
          << "block " << i << ": " << values[0] << " " << values[1] << " " << values[2] << " "
          << values[3];
    }
  }
}

TYPED_TEST(Zfp, ReadsAnyBitsAsThePlainCoderDoes) {
  using Real = typename TypeParam::Real;
  DrawnValues<Real> drawn(12);
  for (int i = 0; i < 5000; ++i) {
    std::vector<unsigned char> block(TypeParam::kBytes);
    const bool is_sparse = drawn.random()() % 2 == 0;
    for (unsigned char& byte : block) {
      byte = static_cast<unsigned char>(drawn.random()() & (is_sparse ? drawn.random()() : 0xffU));
    }
    block[0] |= 3;  // a block of finite numbers that are not all zero
    const Four<Real> expected = plain_zfp_decode<Real>(block);
    for (const Coder& coder : coders()) {
      const std::vector<Real> values = TypeParam::decode(coder, block);
      for (std::size_t k = 0; k < 4; ++k) {
        ASSERT_EQ(bits_of(values[k]), bits_of(expected[k]))
            << "block " << i << ": " << values[k] << " instead of " << expected[k];
      }
    }
  }
}

TYPED_TEST(Zfp, ErrorsStayWithinTheBound) {
  using Real = typename TypeParam::Real;
  DrawnValues<Real> drawn(13);
  const double bound = blocks_of(TypeParam::kCodec, TypeParam::kDtype).error;
  double worst = 0;
  for (int i = 0; i < 5000; ++i) {
    const std::vector<Real> values = drawn_block(drawn);
    const std::vector<Real> decoded =
        TypeParam::decode(coders().back(), TypeParam::encode(coders().back(), values));
    double most = 0;
    double error = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      most = std::max(most, std::abs(static_cast<double>(values[k])));
      error = std::max(error, std::abs(static_cast<double>(values[k]) - decoded[k]));
    }
    // At the end of the range what is decoded may overflow, as it does in libzfp.
    if (most < static_cast<double>(std::numeric_limits<Real>::max()) / 256) {
      ASSERT_LE(error, bound * most) << "block " << i;
      worst = most > 0 ? std::max(worst, error / most) : worst;
    }
  }
  EXPECT_GT(worst, bound / 10000) << "a bound that far away says nothing";
}

TYPED_TEST(Zfp, ABlockWithANanOrAnInfinityBecomesNans) {
  using Real = typename TypeParam::Real;
  constexpr Real kInfinity = std::numeric_limits<Real>::infinity();
  constexpr Real kNan = std::numeric_limits<Real>::quiet_NaN();
  for (const Real bad : {kInfinity, -kInfinity, kNan, -kNan}) {
    for (std::size_t at = 0; at < 4; ++at) {
      std::vector<Real> values = {1, 2, 3, 4, 5, 6, 7, 8};
      values[at] = bad;
      for (const Coder& coder : coders()) {
        const std::vector<Real> decoded =
            TypeParam::decode(coder, TypeParam::encode(coder, values));
        for (std::size_t i = 0; i < 8; ++i) {
          EXPECT_EQ(std::isnan(decoded[i]), i < 4) << bad << " at " << at << ", value " << i;
        }
      }
    }
  }
}

TYPED_TEST(Zfp, WhatIsTooSmallForTheScaleBecomesZero) {
  using Real = typename TypeParam::Real;
  const Real least = std::ldexp(Real{1}, sizeof(Real) == 4 ? -98 : -962);
  const Real below = std::nextafter(least, Real{0});
  const std::vector<Real> none = TypeParam::decode(
      coders().back(), TypeParam::encode(coders().back(), {below, -below, below, below}));
  EXPECT_EQ(none, (std::vector<Real>{0, 0, 0, 0}));
  const std::vector<unsigned char> kept = TypeParam::encode(coders().back(), {least, 0, 0, 0});
  EXPECT_EQ(kept, plain_zfp_encode<Real>({least, 0, 0, 0}, TypeParam::kRate));
}

TYPED_TEST(Zfp, ShortBlocksAreFilledAsLibzfpFillsThem) {
  using Real = typename TypeParam::Real;
  const Coder& coder = coders().back();
  EXPECT_EQ(TypeParam::encode(coder, {3}), TypeParam::encode(coder, {3, 3, 3, 3}));
  EXPECT_EQ(TypeParam::encode(coder, {3, 5}), TypeParam::encode(coder, {3, 5, 5, 3}));
  EXPECT_EQ(TypeParam::encode(coder, {3, 5, 7}), TypeParam::encode(coder, {3, 5, 7, 3}));
  EXPECT_EQ(TypeParam::encode(coder, {1, 2, 3, 4, 9}),
            TypeParam::encode(coder, std::vector<Real>{1, 2, 3, 4, 9, 9, 9, 9}));
}

// What libzfp 1.0.1 writes.
TEST(ZfpBlock, IsTheStreamOfLibzfp) {
  const float smooth[4] = {1, 2, 3, 4};
  EXPECT_EQ(encode_zfp<8>(smooth), 0x000b3105U);
  const float rough[4] = {0.1F, -2.5F, 3.7F, 0.001F};
  EXPECT_EQ(encode_zfp<16>(rough), 0x65f3ede6d7d00903U);
}

}  // namespace
}  // namespace sennit::codec
