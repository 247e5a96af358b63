#include "codec/exact_block.hpp"

#include "codec/codec.hpp"
#include "codec/coder.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace sennit::codec {
namespace {

using Bits = std::vector<std::uint16_t>;

Bits coded_and_back(const Coder& coder, Dtype dtype, const Bits& values, std::size_t* bytes) {
  std::vector<unsigned char> coded(*most_coded_bytes(Codec::kExact, dtype, values.size()));
  *bytes = coder.encode({Codec::kExact, dtype, values.data(), values.size(), coded.data()});
  EXPECT_LE(*bytes, coded.size());
  Bits decoded(values.size());
  EXPECT_TRUE(
      coder.decode({Codec::kExact, dtype, coded.data(), *bytes, decoded.data(), decoded.size()}));
  return decoded;
}

// Gaussian numbers, with a share of zeros.
Bits gaussian(Dtype dtype, std::size_t count, double zeros, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::bernoulli_distribution is_zero(zeros);
  Bits values;
  for (std::size_t i = 0; i < count; ++i) {
    const float value = is_zero(random) ? 0.0F : normal(random);
    values.push_back(dtype == Dtype::kFloat16 ? narrow(value, Float16{}).bits
                                              : narrow(value, Bfloat16{}).bits);
  }
  return values;
}

class Exact : public testing::TestWithParam<Dtype> {};
INSTANTIATE_TEST_SUITE_P(Types,
                         Exact,
                         testing::Values(Dtype::kBfloat16, Dtype::kFloat16),
                         [](const auto& test) { return std::string(name(test.param)); });

TEST_P(Exact, KeepsAllBitsOfAnyValues) {
  std::mt19937_64 random(31);
  for (const std::size_t count : {1, 2, 31, 32, 33, 64, 255, 256, 257, 300, 512, 5000}) {
    for (int kind = 0; kind < 6; ++kind) {
      Bits values(count);
      for (std::uint16_t& value : values) {
        const auto any = static_cast<std::uint16_t>(random());
        // Anything; one exponent; zeros of both signs; a few zeros; subnormal numbers; NaNs.
        const std::uint16_t kinds[] = {any,
                                       static_cast<std::uint16_t>((any & 0x807f) | 0x3f80),
                                       static_cast<std::uint16_t>(any & 0x8000),
                                       static_cast<std::uint16_t>(random() % 8 == 0 ? 0 : any),
                                       static_cast<std::uint16_t>(any & 0x807f),
                                       static_cast<std::uint16_t>(any | 0x7f80)};
        value = kinds[kind];
      }
      for (const Coder& coder : coders()) {
        std::size_t bytes = 0;
        ASSERT_EQ(coded_and_back(coder, GetParam(), values, &bytes), values)
            << count << " values of kind " << kind;
      }
    }
  }
}

TEST_P(Exact, KeepsEveryExponentBesideEveryOther) {
  const int mantissa_bits = GetParam() == Dtype::kFloat16 ? 10 : 7;
  const unsigned exponents = 1U << (15 - mantissa_bits);
  for (unsigned one = 0; one < exponents; ++one) {
    for (unsigned other = 0; other < exponents; ++other) {
      Bits values(kExactValues, static_cast<std::uint16_t>(one << mantissa_bits | 1));
      values[9] = static_cast<std::uint16_t>(other << mantissa_bits | 0x8001);
      values[20] = 0;
      std::size_t bytes = 0;
      ASSERT_EQ(coded_and_back(coders().back(), GetParam(), values, &bytes), values)
          << one << " and " << other;
    }
  }
}

TEST(Exact, ShrinksGaussianNumbersAsTheirExponentsAllow) {
  std::size_t bytes = 0;
  const Bits values = gaussian(Dtype::kBfloat16, 1 << 16, 0, 32);
  coded_and_back(coders().back(), Dtype::kBfloat16, values, &bytes);
  const double ratio = 2.0 * static_cast<double>(values.size()) / static_cast<double>(bytes);
  EXPECT_GT(ratio, 1.35);
  EXPECT_LT(ratio, 1.52) << "more than the entropy allows";
}

TEST(Exact, ZerosAmongOtherNumbersCostLittle) {
  std::size_t dense = 0;
  std::size_t sparse = 0;
  coded_and_back(
      coders().back(), Dtype::kBfloat16, gaussian(Dtype::kBfloat16, 1 << 14, 0, 33), &dense);
  coded_and_back(
      coders().back(), Dtype::kBfloat16, gaussian(Dtype::kBfloat16, 1 << 14, 0.4, 33), &sparse);
  EXPECT_LT(static_cast<double>(sparse), 1.03 * static_cast<double>(dense));
}

TEST(Exact, WhatDoesNotShrinkGrowsByItsHeaders) {
  std::mt19937_64 random(34);
  Bits values(2048);
  for (std::uint16_t& value : values) {
    value = static_cast<std::uint16_t>(random());
  }
  std::size_t bytes = 0;
  coded_and_back(coders().back(), Dtype::kBfloat16, values, &bytes);
  EXPECT_LE(bytes, 2 * values.size() + values.size() / 256 * 12);
}

TEST(Exact, RefusesBytesThatEndEarlyOrLateAndHeadersThatTheTypeDoesNotHave) {
  const Bits values = gaussian(Dtype::kFloat16, 600, 0, 35);
  std::vector<unsigned char> coded(
      *most_coded_bytes(Codec::kExact, Dtype::kFloat16, values.size()) + 8);
  const std::size_t bytes =
      encode(Codec::kExact, Dtype::kFloat16, values.data(), values.size(), coded.data());
  Bits decoded(values.size());
  for (const Coder& coder : coders()) {
    const auto decode_bytes = [&](std::size_t length) {
      return coder.decode(
          {Codec::kExact, Dtype::kFloat16, coded.data(), length, decoded.data(), decoded.size()});
    };
    EXPECT_TRUE(decode_bytes(bytes));
    for (std::size_t length = 0; length < bytes + 8; ++length) {
      EXPECT_EQ(decode_bytes(length), length == bytes) << length;
    }
  }
  // A width of eight bits, which bfloat16 has and float16 does not.
  coded[1] = static_cast<unsigned char>((coded[1] & 0xf0) | 8);
  const Status status = decode(Codec::kExact,
                               Dtype::kFloat16,
                               std::span(coded).first(bytes),
                               decoded.data(),
                               decoded.size());
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("damaged"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace sennit::codec
