#include "codec/scaled_block.hpp"

#include "codec/codec.hpp"
#include "codec/coder.hpp"
#include "codec/testing/drawn_values.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace sennit::codec {
namespace {

template <Codec kName, Dtype kType>
struct Case {
  static constexpr Codec kCodec = kName;
  static constexpr Dtype kDtype = kType;
  using Element = sennit::Element<kType>;
  using Real = typename Computed<Element>::Real;
  static constexpr Real kLeast = sizeof(Real) == 4 ? 0x1p-100 : 0x1p-962;

  static std::vector<unsigned char> encode(const Coder& coder, const std::vector<Element>& values) {
    std::vector<unsigned char> coded(*most_coded_bytes(kCodec, kDtype, values.size()));
    EXPECT_EQ(coder.encode({kCodec, kDtype, values.data(), values.size(), coded.data()}),
              coded.size());
    return coded;
  }
  static std::vector<Element> decode(const Coder& coder,
                                     const std::vector<unsigned char>& coded,
                                     std::size_t count) {
    std::vector<Element> values(count);
    EXPECT_TRUE(coder.decode({kCodec, kDtype, coded.data(), coded.size(), values.data(), count}));
    return values;
  }
  static std::vector<Element> drawn(DrawnValues<Real>& source, std::size_t count, int kind = -1) {
    std::vector<Element> elements;
    for (const Real value : source.next(count, kind)) {
      elements.push_back(Computed<Element>::store(value));
    }
    return elements;
  }
};

Float8E4m3fn e4m3(unsigned bits) { return {static_cast<std::uint8_t>(bits)}; }

template <typename Element>
double number(Element element) {
  return static_cast<double>(Computed<Element>::load(element));
}

template <typename T>
class Scaled : public testing::Test {};
using Cases = testing::Types<Case<Codec::kQ8, Dtype::kFloat32>,
                             Case<Codec::kQ8, Dtype::kFloat16>,
                             Case<Codec::kQ8, Dtype::kBfloat16>,
                             Case<Codec::kQ16, Dtype::kFloat32>,
                             Case<Codec::kQ16, Dtype::kFloat64>,
                             Case<Codec::kMx8, Dtype::kFloat32>,
                             Case<Codec::kMx8, Dtype::kFloat16>,
                             Case<Codec::kMx8, Dtype::kBfloat16>>;
TYPED_TEST_SUITE(Scaled, Cases);

TYPED_TEST(Scaled, ErrorsStayWithinTheBoundAndComeNearIt) {
  DrawnValues<typename TypeParam::Real> source(21);
  const double bound = blocks_of(TypeParam::kCodec, TypeParam::kDtype).error;
  double worst = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto values = TypeParam::drawn(source, kScaledValues);
    double most = 0;
    for (const auto value : values) {
      most = std::max(most, std::abs(number(value)));
    }
    const bool is_subnormal =
        std::is_same_v<typename TypeParam::Element, Float16> && most < 0x1p-14;
    if (most < static_cast<double>(TypeParam::kLeast) || is_subnormal || !std::isfinite(most)) {
      continue;
    }
    const Coder& coder = coders().back();
    const auto decoded = TypeParam::decode(coder, TypeParam::encode(coder, values), values.size());
    for (std::size_t k = 0; k < values.size(); ++k) {
      const double error = std::abs(number(decoded[k]) - number(values[k]));
      ASSERT_LE(error, bound * most) << "block " << i << ", value " << k;
      worst = std::max(worst, error / most);
    }
  }
  EXPECT_GT(worst, bound / 4);
}

TYPED_TEST(Scaled, ABlockWithANanOrAnInfinityBecomesNansAndNoOther) {
  using Element = typename TypeParam::Element;
  using Real = typename TypeParam::Real;
  constexpr Real kInfinity = std::numeric_limits<Real>::infinity();
  for (const Real bad : {kInfinity, -kInfinity, std::numeric_limits<Real>::quiet_NaN()}) {
    std::vector<Element> values(2 * kScaledValues, Computed<Element>::store(Real{1}));
    values[kScaledValues + 5] = Computed<Element>::store(bad);
    const auto coded = TypeParam::encode(coders().front(), values);
    for (const Coder& coder : coders()) {
      EXPECT_EQ(TypeParam::encode(coder, values), coded);
      const auto decoded = TypeParam::decode(coder, coded, values.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_EQ(std::isnan(number(decoded[i])), i >= kScaledValues) << i;
      }
    }
  }
}

TYPED_TEST(Scaled, TheLargestFiniteNumbersStayFinite) {
  using Element = typename TypeParam::Element;
  const Element largest = Computed<Element>::store(kLargestFinite<Element>);
  std::vector<Element> values(kScaledValues, largest);
  values[1] = Computed<Element>::store(-kLargestFinite<Element>);
  for (const Coder& coder : coders()) {
    const auto decoded = TypeParam::decode(coder, TypeParam::encode(coder, values), values.size());
    for (const Element element : decoded) {
      EXPECT_TRUE(std::isfinite(number(element)));
    }
    EXPECT_LT(number(decoded[1]), 0);
  }
}

TYPED_TEST(Scaled, WhatIsTooSmallForTheScaleBecomesZero) {
  using Element = typename TypeParam::Element;
  using Real = typename TypeParam::Real;
  const Coder& coder = coders().back();
  std::vector<Element> values(kScaledValues, Computed<Element>::store(TypeParam::kLeast / 2));
  for (const Element element :
       TypeParam::decode(coder, TypeParam::encode(coder, values), values.size())) {
    EXPECT_EQ(number(element), 0);
  }
  if (std::is_same_v<Element, Float16>) {
    return;  // has no numbers that small
  }
  values[7] = Computed<Element>::store(TypeParam::kLeast);
  const auto kept = TypeParam::decode(coder, TypeParam::encode(coder, values), values.size());
  EXPECT_NEAR(number(kept[7]) / static_cast<double>(Real{TypeParam::kLeast}), 1, 0.01);
}

// The definition of q8 and q16 in other words: the least scale of its type that is not below the
// quotient, and the integer nearest to the value over it.
template <typename T>
class Integers : public testing::Test {};
using IntegerCases = testing::Types<Case<Codec::kQ8, Dtype::kFloat32>,
                                    Case<Codec::kQ8, Dtype::kBfloat16>,
                                    Case<Codec::kQ16, Dtype::kFloat32>,
                                    Case<Codec::kQ16, Dtype::kFloat64>>;
TYPED_TEST_SUITE(Integers, IntegerCases);

TYPED_TEST(Integers, AreTheNearestOnesToValuesOverTheScale) {
  using Real = typename TypeParam::Real;
  using Scale = std::conditional_t<sizeof(Real) == 4, std::uint16_t, std::uint32_t>;
  const int most_integer = TypeParam::kCodec == Codec::kQ8 ? 127 : 32767;
  const std::size_t integer_bytes = TypeParam::kCodec == Codec::kQ8 ? 1 : 2;
  DrawnValues<Real> source(22);
  for (int i = 0; i < 2000; ++i) {
    const auto values = TypeParam::drawn(source, kScaledValues, i % 2);
    Real most = 0;
    for (const auto value : values) {
      most = std::max(most, std::abs(static_cast<Real>(number(value))));
    }
    const auto coded = TypeParam::encode(coders().back(), values);
    ASSERT_EQ(coded, TypeParam::encode(coders().front(), values));
    const auto scale = load_bytes<Scale>(coded.data());
    const auto real = [](Scale upper) {
      return real_of<Real>(static_cast<BitsOf<Real>>(upper) << (4 * sizeof(Real)));
    };
    const Real quotient = most / static_cast<Real>(most_integer);
    ASSERT_GE(real(scale), quotient);
    ASSERT_LT(real(static_cast<Scale>(scale - 1)), quotient);
    for (std::size_t k = 0; k < values.size(); ++k) {
      std::int16_t integer = 0;
      std::memcpy(&integer, coded.data() + sizeof(Scale) + k * integer_bytes, integer_bytes);
      integer = integer_bytes == 1 ? static_cast<std::int8_t>(integer) : integer;
      const double exact = number(values[k]) / static_cast<double>(real(scale));
      ASSERT_NEAR(integer, exact, 0.51) << "block " << i << ", value " << k;
    }
  }
}

// The definition of mx8 by trial: the least power of two, and of all 8-bit floats the nearest one,
// of two equally close the even one.
TEST(Mx8, IsTheNearestFloatUnderTheLeastScale) {
  DrawnValues<float> source(23);
  for (int i = 0; i < 300; ++i) {
    const std::vector<float> values = source.next(kScaledValues, i % 2 == 0 ? 0 : 6);
    double most = 0;
    for (const float value : values) {
      most = std::max(most, std::abs(static_cast<double>(value)));
    }
    int exponent = -127;
    while (most / std::ldexp(1.0, exponent) > 448) {
      ++exponent;
    }
    using TestCase = Case<Codec::kMx8, Dtype::kFloat32>;
    const auto coded = TestCase::encode(coders().back(), values);
    ASSERT_EQ(coded, TestCase::encode(coders().front(), values));
    ASSERT_EQ(coded[0], exponent + 127);
    for (std::size_t k = 0; k < values.size(); ++k) {
      const double scaled = std::ldexp(static_cast<double>(values[k]), -exponent);
      const double distance = std::abs(number(e4m3(coded[1 + k])) - scaled);
      for (unsigned other = 0; other < 256; ++other) {
        const double its = std::abs(number(e4m3(other)) - scaled);
        ASSERT_FALSE(its < distance) << values[k] << ": " << other << " is nearer";
        const bool is_other = number(e4m3(other)) != number(e4m3(coded[1 + k]));
        ASSERT_FALSE(its == distance && is_other && other % 2 == 0) << values[k];
      }
    }
  }
}

TEST(Mx8, TakesTheNextScaleAbove448) {
  std::vector<float> values(kScaledValues, 448.0F);
  using TestCase = Case<Codec::kMx8, Dtype::kFloat32>;
  EXPECT_EQ(TestCase::encode(coders().back(), values)[0], 127);
  values[3] = std::nextafter(448.0F, 1000.0F);
  EXPECT_EQ(TestCase::encode(coders().back(), values)[0], 128);
}

}  // namespace
}  // namespace sennit::codec
