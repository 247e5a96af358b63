#include "types/reduce.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace sennit {
namespace {

using Bytes = std::vector<std::byte>;

Bytes reduced(Dtype dtype, ReduceOp op, const std::vector<Bytes>& operands) {
  std::vector<Operand> list;
  for (const Bytes& operand : operands) {
    list.push_back({.data = operand.data()});
  }
  Bytes out(operands.front().size());
  reduce(dtype,
         op,
         {.scalar = {}, .ranks = static_cast<int>(operands.size())},
         {.out = out.data(),
          .operands = list,
          .elements = static_cast<std::int64_t>(out.size() / size_bytes(dtype)),
          .is_finished = finishes_sum(op)});
  return out;
}

template <typename T>
T reduced(Dtype dtype, ReduceOp op, const std::vector<T>& values) {
  std::vector<Bytes> operands;
  for (const T& value : values) {
    std::memcpy(operands.emplace_back(sizeof(T)).data(), &value, sizeof(T));
  }
  T out;
  std::memcpy(&out, reduced(dtype, op, operands).data(), sizeof(T));
  return out;
}

// Numbers, subnormal numbers, zeros, infinities and NaN in bits of any type, and random ones.
std::vector<Bytes> wild_elements(Dtype dtype) {
  std::vector<Bytes> elements;
  for (const int pattern :
       {0x00, 0x01, 0x80, 0x7f, 0xff, 0x7c, 0xfc, 0x7d, 0xfd, 0x78, 0x38, 0x3c, 0x40}) {
    for (const int rest : {0x00, 0x80, 0xf0, 0xff, 0x01}) {
      Bytes element(size_bytes(dtype), static_cast<std::byte>(rest == 0xf0 ? 0 : rest));
      const std::size_t part =
          kind_of(dtype) == Kind::kComplex ? element.size() / 2 : element.size();
      for (std::size_t end = part; end <= element.size(); end += part) {
        element[end - 1] = static_cast<std::byte>(pattern);
        if (part > 1) {
          element[end - 2] = static_cast<std::byte>(rest);
        }
      }
      elements.push_back(std::move(element));
    }
  }
  std::mt19937 random(7);
  for (int i = 0; i < 60; ++i) {
    Bytes& element = elements.emplace_back(size_bytes(dtype));
    for (std::byte& byte : element) {
      byte = static_cast<std::byte>(random());
    }
  }
  return elements;
}

template <typename Visit>
void for_each_pair_of_the_tables(Visit&& visit) {
  for (const Dtype dtype : kDtypes) {
    for (const ReduceOp op : kReduceOps) {
      if (has_operator(dtype, op)) {
        SCOPED_TRACE(fmt::format("{} of {}", name(op), name(dtype)));
        visit(dtype, op);
      }
    }
  }
}

TEST(Reduce, EveryOperatorIsCommutativeToTheBit) {
  for_each_pair_of_the_tables([](Dtype dtype, ReduceOp op) {
    // All pairs at once: element i of `a` meets element i of `b`.
    const std::vector<Bytes> elements = wild_elements(dtype);
    Bytes a;
    Bytes b;
    for (const Bytes& first : elements) {
      for (const Bytes& second : elements) {
        a.insert(a.end(), first.begin(), first.end());
        b.insert(b.end(), second.begin(), second.end());
      }
    }
    EXPECT_EQ(reduced(dtype, op, {a, b}), reduced(dtype, op, {b, a}));
    EXPECT_EQ(reduced(dtype, op, {a, b, a}), reduced(dtype, op, {b, a, a}));
  });
}

// Two operands take another loop than more; the bits are the same where nothing is rounded between.
TEST(Reduce, OfTwoOperandsIsTheFirstStepOfMore) {
  for_each_pair_of_the_tables([](Dtype dtype, ReduceOp op) {
    const bool has_neutral = op == ReduceOp::kMin || op == ReduceOp::kMax;
    if (!has_neutral) {
      return;
    }
    Bytes a;
    Bytes b;
    for (const Bytes& element : wild_elements(dtype)) {
      a.insert(a.end(), element.begin(), element.end());
      b.insert(b.begin(), element.begin(), element.end());
    }
    EXPECT_EQ(reduced(dtype, op, {a, b}), reduced(dtype, op, {a, b, a}));
  });
}

TEST(Reduce, MinAndMaxPropagateNanAndOrderZeros) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const auto min = [](const std::vector<float>& v) {
    return reduced(Dtype::kFloat32, ReduceOp::kMin, v);
  };
  const auto max = [](const std::vector<float>& v) {
    return reduced(Dtype::kFloat32, ReduceOp::kMax, v);
  };
  EXPECT_TRUE(std::isnan(min({1.0F, kNan})));
  EXPECT_TRUE(std::isnan(max({kNan, INFINITY})));
  EXPECT_TRUE(std::isnan(min({-kNan, -INFINITY, 1.0F})));
  EXPECT_TRUE(std::signbit(min({0.0F, -0.0F})));
  EXPECT_FALSE(std::signbit(max({-0.0F, 0.0F})));
  EXPECT_EQ(min({-1.0F, -INFINITY, 3.0F}), -INFINITY);
  EXPECT_EQ(max({-1.0F, -2.0F}), -1.0F);
  EXPECT_EQ(reduced<double>(Dtype::kFloat64, ReduceOp::kMin, {-1e300, 5.0}), -1e300);
  EXPECT_EQ(reduced<Bfloat16>(Dtype::kBfloat16, ReduceOp::kMax, {{0xff81}, {0x3f80}}).bits, 0x7fc0);
  // An infinity is an operand like any other, where a sum would saturate.
  EXPECT_EQ(reduced<Float8E5m2>(Dtype::kFloat8E5m2, ReduceOp::kMax, {{0x7c}, {0x3c}}).bits, 0x7c);
}

TEST(Reduce, IntegersWrap) {
  EXPECT_EQ(reduced<std::uint8_t>(Dtype::kUint8, ReduceOp::kSum, {200, 100}), 44);
  EXPECT_EQ(reduced<std::uint16_t>(Dtype::kUint16, ReduceOp::kProd, {0xffff, 0xffff}), 1);
  EXPECT_EQ(reduced<std::int8_t>(Dtype::kInt8, ReduceOp::kProd, {-128, -1}), -128);
  constexpr auto kMax = std::numeric_limits<std::int32_t>::max();
  constexpr auto kMin = std::numeric_limits<std::int32_t>::min();
  EXPECT_EQ(reduced<std::int32_t>(Dtype::kInt32, ReduceOp::kSum, {kMax, 1}), kMin);
  EXPECT_EQ(reduced<std::int32_t>(Dtype::kInt32, ReduceOp::kProd, {kMin, -1}), kMin);
}

TEST(Reduce, TheAvgOfIntegersIsTheSumThatWrapsDividedAndCutTowardsZero) {
  EXPECT_EQ(reduced<std::int8_t>(Dtype::kInt8, ReduceOp::kAvg, {-3, -4}), -3);
  EXPECT_EQ(reduced<std::int8_t>(Dtype::kInt8, ReduceOp::kAvg, {100, 100, 101}), 15);  // 45 / 3
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(reduced<std::int64_t>(Dtype::kInt64, ReduceOp::kAvg, {kMax, kMax}), -1);
  constexpr auto kUnsignedMax = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(reduced<std::uint64_t>(Dtype::kUint64, ReduceOp::kAvg, {kUnsignedMax, kUnsignedMax}),
            kUnsignedMax / 2);
  // More ranks than the type holds.
  EXPECT_EQ(reduced<std::int8_t>(Dtype::kInt8, ReduceOp::kAvg, std::vector<std::int8_t>(200, 1)),
            0);
}

TEST(Reduce, SmallFloatsAccumulateInFloatAndRoundOnce) {
  // 256 + 1 is a tie in bfloat16: rounded after each step the ones would be lost.
  const Bfloat16 one{0x3f80};
  EXPECT_EQ(reduced<Bfloat16>(Dtype::kBfloat16, ReduceOp::kSum, {{0x4380}, one, one}).bits, 0x4381);
  // The mean of two numbers whose sum is too large.
  EXPECT_EQ(reduced<Float16>(Dtype::kFloat16, ReduceOp::kAvg, {{0x7bff}, {0x7bff}}).bits, 0x7bff);
}

TEST(Reduce, SumsOfEightBitsSaturate) {
  EXPECT_EQ(reduced<Float8E4m3fn>(Dtype::kFloat8E4m3fn, ReduceOp::kSum, {{0x7e}, {0x7e}}).bits,
            0x7e);
  EXPECT_EQ(reduced<Float8E5m2>(Dtype::kFloat8E5m2, ReduceOp::kSum, {{0xfb}, {0xfb}}).bits, 0xfb);
}

TEST(Reduce, BoolsAreAnyByteAndResultsAreZeroOrOne) {
  const auto of = [](ReduceOp op, std::uint8_t a, std::uint8_t b) {
    return reduced<Bool>(Dtype::kBool, op, {{a}, {b}}).bits;
  };
  EXPECT_EQ(of(ReduceOp::kSum, 2, 4), 1);
  EXPECT_EQ(of(ReduceOp::kProd, 2, 4), 1);
  EXPECT_EQ(of(ReduceOp::kProd, 2, 0), 0);
  EXPECT_EQ(of(ReduceOp::kMin, 0, 9), 0);
  EXPECT_EQ(of(ReduceOp::kMax, 0, 9), 1);
  EXPECT_EQ(of(ReduceOp::kBitwiseXor, 2, 4), 0);
}

TEST(Reduce, LogicalOperatorsAskForZeroAndBitwiseOnesDoNot) {
  const auto of = [](ReduceOp op) { return reduced<std::int32_t>(Dtype::kInt32, op, {12, 10, 2}); };
  EXPECT_EQ(of(ReduceOp::kLogicalAnd), 1);
  EXPECT_EQ(of(ReduceOp::kLogicalOr), 1);
  EXPECT_EQ(of(ReduceOp::kLogicalXor), 1);
  EXPECT_EQ(of(ReduceOp::kBitwiseAnd), 0);
  EXPECT_EQ(of(ReduceOp::kBitwiseOr), 14);
  EXPECT_EQ(of(ReduceOp::kBitwiseXor), 4);
}

TEST(Reduce, ComplexNumbersMultiplyAsSuch) {
  using C = Complex<float>;
  const C product = reduced<C>(Dtype::kComplex64, ReduceOp::kProd, {{1, 2}, {3, -4}, {0, 1}});
  EXPECT_EQ(product.real, -2);  // (11 + 2i) i
  EXPECT_EQ(product.imaginary, 11);
  const C mean = reduced<C>(Dtype::kComplex64, ReduceOp::kAvg, {{1, 2}, {3, -4}});
  EXPECT_EQ(mean.real, 2);
  EXPECT_EQ(mean.imaginary, -1);
}

TEST(Reduce, ScaledOperandsAreRoundedBeforeTheyAreSummed) {
  // 3 * 1.0078125 is a tie in bfloat16, 3.015625; so it makes a difference.
  Scaling scaling;
  const Bfloat16 scalar{0x4040};
  std::memcpy(scaling.scalar.data(), &scalar, sizeof(scalar));
  const Bfloat16 contribution{0x3f81};
  const Bfloat16 received{0x3b80};  // 2^-8
  const auto sum_of = [&](std::vector<Operand> operands) {
    Bfloat16 out{};
    reduce(Dtype::kBfloat16,
           ReduceOp::kPremulSum,
           scaling,
           {.out = &out, .operands = operands, .elements = 1});
    return out.bits;
  };
  const std::uint16_t scaled = sum_of({{.data = &contribution, .is_scaled = true}});
  EXPECT_EQ(scaled, narrow(3 * widen(contribution), Bfloat16{}).bits);
  const Bfloat16 sent{scaled};
  EXPECT_EQ(sum_of({{.data = &contribution, .is_scaled = true}, {.data = &received}}),
            sum_of({{.data = &sent}, {.data = &received}}));
}

// Long enough for whole vectors and a rest, with every kind of element in every place.
TEST(Reduce, EveryFormGivesTheSameBits) {
  constexpr std::size_t kElements = 1003;
  for_each_pair_of_the_tables([](Dtype dtype, ReduceOp op) {
    const std::vector<Bytes> wild = wild_elements(dtype);
    for (std::size_t count = 1; count <= 3; ++count) {
      std::vector<Bytes> inputs(count);
      std::vector<Operand> operands;
      for (std::size_t o = 0; o < count; ++o) {
        for (std::size_t i = 0; i < kElements; ++i) {
          const Bytes& element = wild[(i * (o + 3) + o * 17) % wild.size()];
          inputs[o].insert(inputs[o].end(), element.begin(), element.end());
        }
        operands.push_back({.data = inputs[o].data(), .is_scaled = scales_contributions(op)});
      }
      Scaling scaling{.scalar = {}, .ranks = 3};
      std::ranges::copy(wild[5], scaling.scalar.begin());
      std::vector<Bytes> results;
      for (const ReduceForm& form : reduce_forms()) {
        Bytes& out = results.emplace_back(inputs[0].size());
        form(dtype,
             op,
             scaling,
             {.out = out.data(),
              .operands = operands,
              .elements = static_cast<std::int64_t>(kElements),
              .is_finished = finishes_sum(op)});
        EXPECT_EQ(out, results.front()) << count << " operands, form " << results.size();
      }
    }
  });
}

TEST(Reduce, TheOutputMayBeAnyOperand) {
  constexpr std::int64_t kElements = 5000;  // more than one piece, and a rest
  for (std::size_t alias = 0; alias < 4; ++alias) {
    std::array<std::vector<std::int64_t>, 4> values;
    std::vector<Operand> operands;
    for (std::size_t k = 0; k < values.size(); ++k) {
      for (std::int64_t i = 0; i < kElements; ++i) {
        values[k].push_back(i * 10 + static_cast<std::int64_t>(k));
      }
      operands.push_back({.data = values[k].data()});
    }
    reduce(Dtype::kInt64,
           ReduceOp::kSum,
           {},
           {.out = values[alias].data(), .operands = operands, .elements = kElements});
    for (std::int64_t i = 0; i < kElements; ++i) {
      ASSERT_EQ(values[alias][static_cast<std::size_t>(i)], 40 * i + 6) << "alias " << alias;
    }
  }
}

TEST(Operators, PairsThatTheTablesLackAreRefusedByName) {
  EXPECT_TRUE(check_operator(Dtype::kFloat8E5m2, ReduceOp::kAvg).ok());
  const Status refused = check_operator(Dtype::kFloat32, ReduceOp::kBitwiseOr);
  EXPECT_EQ(refused.code(), Code::kUnsupported);
  EXPECT_EQ(refused.message(),
            "there is no bitwise_or of float32; there are: sum, prod, min, max, avg, premul_sum");
  EXPECT_FALSE(check_operator(Dtype::kComplex64, ReduceOp::kMax).ok());
  EXPECT_FALSE(check_operator(Dtype::kBool, ReduceOp::kAvg).ok());
  EXPECT_EQ(reduce_op_from_value(static_cast<int>(ReduceOp::kPremulSum)).status().code(),
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace sennit
