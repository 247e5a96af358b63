#include "types/element.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace sennit {
namespace {

// The formats once more, as their standards give them: what the tests compare with.
template <typename T>
struct Layout;
template <>
struct Layout<Float16> {
  static constexpr int kMantissaBits = 10, kBias = 15;
  static constexpr std::uint32_t kLargest = 0x7bff;
  static constexpr bool kSaturates = false;
};
template <>
struct Layout<Bfloat16> {
  static constexpr int kMantissaBits = 7, kBias = 127;
  static constexpr std::uint32_t kLargest = 0x7f7f;
  static constexpr bool kSaturates = false;
};
template <>
struct Layout<Float8E4m3fn> {
  static constexpr int kMantissaBits = 3, kBias = 7;
  static constexpr std::uint32_t kLargest = 0x7e;
  static constexpr bool kSaturates = true;
};
template <>
struct Layout<Float8E5m2> {
  static constexpr int kMantissaBits = 2, kBias = 15;
  static constexpr std::uint32_t kLargest = 0x7b;
  static constexpr bool kSaturates = true;
};

template <typename T>
double number(std::uint32_t magnitude) {
  const auto exponent = static_cast<int>(magnitude >> Layout<T>::kMantissaBits);
  const std::uint32_t fraction = magnitude & ((1U << Layout<T>::kMantissaBits) - 1);
  const std::uint32_t one = exponent > 0 ? 1U << Layout<T>::kMantissaBits : 0;
  return std::ldexp(fraction + one,
                    std::max(exponent, 1) - Layout<T>::kBias - Layout<T>::kMantissaBits);
}

template <typename T>
T of_bits(std::uint32_t bits) {
  return {static_cast<decltype(T::bits)>(bits)};
}

template <typename T>
std::uint32_t narrowed(float value) {
  return narrow(value, T{}).bits;
}

template <typename T>
class SmallFloats : public testing::Test {
 protected:
  static constexpr std::uint32_t kSign = 1U << (8 * sizeof(T) - 1);
};
using SmallFloatTypes = testing::Types<Float16, Bfloat16, Float8E4m3fn, Float8E5m2>;
TYPED_TEST_SUITE(SmallFloats, SmallFloatTypes);

TYPED_TEST(SmallFloats, EveryFiniteNumberWidensExactlyAndComesBack) {
  for (std::uint32_t bits = 0; bits <= Layout<TypeParam>::kLargest; ++bits) {
    const double exact = number<TypeParam>(bits);
    ASSERT_EQ(widen(of_bits<TypeParam>(bits)), exact) << bits;
    ASSERT_EQ(widen(of_bits<TypeParam>(bits | this->kSign)), -exact) << bits;
    ASSERT_EQ(narrowed<TypeParam>(static_cast<float>(exact)), bits);
    ASSERT_EQ(narrowed<TypeParam>(static_cast<float>(-exact)), bits | this->kSign);
  }
}

TYPED_TEST(SmallFloats, NumbersBetweenGoToTheNearestAndTiesToEven) {
  for (std::uint32_t low = 0; low < Layout<TypeParam>::kLargest; ++low) {
    const auto middle =
        static_cast<float>((number<TypeParam>(low) + number<TypeParam>(low + 1)) / 2);
    const std::uint32_t even = low + low % 2;
    ASSERT_EQ(narrowed<TypeParam>(middle), even) << low;
    ASSERT_EQ(narrowed<TypeParam>(std::nextafter(middle, 0.0F)), low) << low;
    ASSERT_EQ(narrowed<TypeParam>(std::nextafter(middle, INFINITY)), low + 1) << low;
    ASSERT_EQ(narrowed<TypeParam>(-middle), even | this->kSign) << low;
  }
}

TYPED_TEST(SmallFloats, WhatIsTooLargeIsInfiniteOrSaturates) {
  using L = Layout<TypeParam>;
  const double largest = number<TypeParam>(L::kLargest);
  const double step = largest - number<TypeParam>(L::kLargest - 1);
  const std::uint32_t overflow = L::kSaturates ? L::kLargest : L::kLargest + 1;
  EXPECT_EQ(narrowed<TypeParam>(std::nextafter(static_cast<float>(largest + step / 2), 0.0F)),
            L::kLargest);
  EXPECT_EQ(narrowed<TypeParam>(static_cast<float>(largest + step)), overflow);
  EXPECT_EQ(narrowed<TypeParam>(std::numeric_limits<float>::max()), overflow);
  EXPECT_EQ(narrowed<TypeParam>(INFINITY), overflow);
  EXPECT_EQ(narrowed<TypeParam>(-INFINITY), overflow | this->kSign);
}

TYPED_TEST(SmallFloats, EveryNanBecomesOne) {
  const std::uint32_t nan = narrowed<TypeParam>(std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(std::isnan(widen(of_bits<TypeParam>(nan))));
  EXPECT_EQ(nan & this->kSign, 0U);
  for (const std::uint32_t bits : {0x7f800001U, 0xff800001U, 0x7fffffffU, 0xffc00000U}) {
    EXPECT_EQ(narrowed<TypeParam>(float_of_bits(bits)), nan) << bits;
  }
}

TEST(Element, InfinitiesAndNansOfSmallFloatsWiden) {
  EXPECT_EQ(widen(Float16{0x7c00}), INFINITY);
  EXPECT_EQ(widen(Float16{0xfc00}), -INFINITY);
  EXPECT_EQ(widen(Bfloat16{0x7f80}), INFINITY);
  EXPECT_EQ(widen(Float8E5m2{0xfc}), -INFINITY);
  EXPECT_TRUE(std::isnan(widen(Float16{0x7c01})));
  EXPECT_TRUE(std::isnan(widen(Bfloat16{0xff81})));
  EXPECT_TRUE(std::isnan(widen(Float8E4m3fn{0xff})));
  EXPECT_TRUE(std::isnan(widen(Float8E5m2{0x7d})));
}

}  // namespace
}  // namespace sennit
