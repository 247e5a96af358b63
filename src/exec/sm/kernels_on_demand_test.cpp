#include "exec/sm/kernels_on_demand.hpp"

#include "drivers/cuda/testing/fake_cuda.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace sennit::tests {
namespace {

template <typename T>
T take(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  return std::move(result).value();
}

class Kernels : public ::testing::Test {
 protected:
  const void* reducer(ReduceOp op) {
    return take(kernels_.reducer(sm::KernelKind::kLl, Dtype::kInt32, op, stream_));
  }

  FakeCuda cuda_{{}};
  sm::KernelsOnDemand kernels_{cuda_};
  void* stream_ = take(cuda_.create_stream());
};

TEST_F(Kernels, AreLoadedAtFirstUseAndOnce) {
  EXPECT_EQ(reducer(ReduceOp::kSum),
            sm::reducing_kernel(sm::KernelKind::kLl, Dtype::kInt32, ReduceOp::kSum));
  EXPECT_EQ(cuda_.calls("preload"), 1);
  reducer(ReduceOp::kSum);
  EXPECT_EQ(cuda_.calls("preload"), 1);
  reducer(ReduceOp::kMax);
  EXPECT_EQ(cuda_.calls("preload"), 2);
}

TEST_F(Kernels, AreNotLoadedInACapture) {
  cuda_.begin_capture(stream_);
  EXPECT_NE(reducer(ReduceOp::kSum), nullptr);
  (void)take(cuda_.end_capture(stream_));
  EXPECT_EQ(cuda_.calls("preload"), 0);
  reducer(ReduceOp::kSum);
  EXPECT_EQ(cuda_.calls("preload"), 1);
}

TEST_F(Kernels, AreNotLoadedAgainOnceAllAre) {
  ASSERT_TRUE(kernels_.load_reducers().ok());
  const int all = cuda_.calls("preload");
  EXPECT_GT(all, 500);
  reducer(ReduceOp::kSum);
  EXPECT_EQ(cuda_.calls("preload"), all);
}

}  // namespace
}  // namespace sennit::tests
