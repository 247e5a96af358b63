#include "select/codec_cost.hpp"

#include "select/testing/chosen.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace sennit::tests {
namespace {

constexpr std::int64_t kBytes = 32 << 20;

const GpuProfile& profile() { return gpu_profiles().front(); }

TEST(CodecCost, IsThatOfKernelsOverAllThatIsCoded) {
  const auto coded = coded_call(Codec::kQ8, Collective::kAllToAll, 2, kBytes, profile());
  ASSERT_TRUE(coded.ok()) << coded.status().message();
  EXPECT_EQ(coded->bytes, kBytes / 4 / 32 * 34);
  const double gb_per_s = profile().codec_rates.front().gb_per_s;
  const double kernels = 2.0 * kBytes / gb_per_s / 1e9;
  const double launches = coded->kernel_seconds - kernels;
  EXPECT_GT(launches, 1e-6);
  EXPECT_LT(launches, 1e-5);
  const auto four = coded_call(Codec::kQ8, Collective::kAllToAll, 4, kBytes, profile());
  ASSERT_TRUE(four.ok());
  EXPECT_LT(std::abs(four->kernel_seconds - 3 * kernels - launches), 1e-12);
  const auto sums = coded_call(Codec::kQ8, Collective::kAllReduce, 2, kBytes, profile());
  ASSERT_TRUE(sums.ok());
  EXPECT_DOUBLE_EQ(sums->kernel_seconds, coded->kernel_seconds);
}

TEST(CodecCost, IsNotMadeUp) {
  const auto unknown = coded_call(Codec::kQ16, Collective::kAllToAll, 2, kBytes, profile());
  ASSERT_FALSE(unknown.ok());
  EXPECT_TRUE(contains(unknown.status().message(), "no line 'codec q16'"));
  EXPECT_FALSE(coded_call(Codec::kQ8, Collective::kBarrier, 2, 0, profile()).ok());
}

}  // namespace
}  // namespace sennit::tests
