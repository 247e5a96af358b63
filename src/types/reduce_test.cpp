#include "types/reduce.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace sennit {
namespace {

template <typename T>
T reduced(Dtype dtype, ReduceOp op, const std::vector<T>& values) {
  std::vector<const void*> operands;
  for (const T& value : values) {
    operands.push_back(&value);
  }
  T out{};
  reduce(dtype, op, &out, operands, 1);
  return out;
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Reduce, OperatorsAreCommutativeToTheBit) {
  const std::array<float, 9> values = {0.0F,
                                       -0.0F,
                                       1.5F,
                                       -2.0F,
                                       kNan,
                                       -kNan,
                                       std::bit_cast<float>(0x7fa00001U),
                                       std::numeric_limits<float>::infinity(),
                                       -std::numeric_limits<float>::infinity()};
  for (const ReduceOp op : kReduceOps) {
    for (const float a : values) {
      for (const float b : values) {
        const auto ab = reduced<float>(Dtype::kFloat32, op, {a, b});
        const auto ba = reduced<float>(Dtype::kFloat32, op, {b, a});
        EXPECT_EQ(std::bit_cast<std::uint32_t>(ab), std::bit_cast<std::uint32_t>(ba))
            << name(op) << " of " << a << " and " << b;
      }
    }
  }
}

TEST(Reduce, MinAndMaxPropagateNanAndOrderZeros) {
  EXPECT_TRUE(std::isnan(reduced<float>(Dtype::kFloat32, ReduceOp::kMin, {1.0F, kNan})));
  EXPECT_TRUE(std::isnan(reduced<float>(Dtype::kFloat32, ReduceOp::kMax, {kNan, 1.0F})));
  EXPECT_TRUE(std::signbit(reduced<float>(Dtype::kFloat32, ReduceOp::kMin, {0.0F, -0.0F})));
  EXPECT_FALSE(std::signbit(reduced<float>(Dtype::kFloat32, ReduceOp::kMax, {-0.0F, 0.0F})));
}

TEST(Reduce, IntegerSumsWrap) {
  EXPECT_EQ(reduced<std::uint8_t>(Dtype::kUint8, ReduceOp::kSum, {200, 100}), 44);
  EXPECT_EQ(reduced<std::int32_t>(
                Dtype::kInt32, ReduceOp::kSum, {std::numeric_limits<std::int32_t>::max(), 1}),
            std::numeric_limits<std::int32_t>::min());
}

TEST(Reduce, TheOutputMayBeAnyOperand) {
  constexpr std::int64_t kElements = 5000;  // more than one piece, and a rest
  for (std::size_t alias = 0; alias < 4; ++alias) {
    std::array<std::vector<std::int64_t>, 4> values;
    std::vector<const void*> operands;
    for (std::size_t k = 0; k < values.size(); ++k) {
      for (std::int64_t i = 0; i < kElements; ++i) {
        values[k].push_back(i * 10 + static_cast<std::int64_t>(k));
      }
      operands.push_back(values[k].data());
    }
    reduce(Dtype::kInt64, ReduceOp::kSum, values[alias].data(), operands, kElements);
    for (std::int64_t i = 0; i < kElements; ++i) {
      ASSERT_EQ(values[alias][static_cast<std::size_t>(i)], 40 * i + 6) << "alias " << alias;
    }
  }
}

}  // namespace
}  // namespace sennit
