#include "comm/device/stream_order.hpp"

#include "drivers/cuda/testing/fake_cuda.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace sennit {
namespace {

// Calls that last as long as a word says so, and whether one began while another one ran.
class OrderedCalls : public ::testing::Test {
 protected:
  void SetUp() override {
    cuda_.run_kernels([this](const void* /*kernel*/, const void* /*parameters*/) {
      return [this] {
        overlaps_ = overlaps_ || ++running_ > 1;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        --running_;
      };
    });
    EXPECT_TRUE(order_.open().ok());
  }

  void call(void* stream) {
    EXPECT_TRUE(order_.before(stream).ok());
    EXPECT_TRUE(cuda_.launch(nullptr, {}, nullptr, stream).ok());
    EXPECT_TRUE(order_.after(stream).ok());
  }
  void* make_stream() { return cuda_.create_stream().value(); }

  FakeCuda cuda_{{}};
  StreamOrder order_{cuda_};
  std::atomic<int> running_ = 0;
  std::atomic<bool> overlaps_ = false;
};

TEST_F(OrderedCalls, OfSeveralStreamsDoNotOverlap) {
  void* const first = make_stream();
  void* const second = make_stream();
  for (int i = 0; i < 3; ++i) {
    call(first);
    call(second);
  }
  EXPECT_TRUE(order_.drain().ok());
  EXPECT_FALSE(overlaps_);
  EXPECT_EQ(running_, 0);
}

TEST_F(OrderedCalls, OfOneStreamNeedNoWait) {
  void* const stream = make_stream();
  call(stream);
  const int waits = cuda_.calls("wait_for");
  call(stream);
  EXPECT_EQ(cuda_.calls("wait_for"), waits);
}

// One handle, and another stream in each thread.
TEST_F(OrderedCalls, OfThreadsWithStreamsOfTheirOwnDoNotOverlap) {
  for (int i = 0; i < 3; ++i) {
    std::jthread([this] {
      FakeCuda::set_thread_stream(make_stream());
      call(FakeCuda::per_thread_stream());
    });
  }
  EXPECT_TRUE(order_.drain().ok());
  EXPECT_FALSE(overlaps_);
}

TEST_F(OrderedCalls, AreWaitedForWhereTheirStreamIsNoMore) {
  void* const stream = make_stream();
  call(stream);
  EXPECT_TRUE(cuda_.destroy_stream(stream).ok());
  EXPECT_TRUE(order_.drain().ok());
  EXPECT_EQ(running_, 0);
}

}  // namespace
}  // namespace sennit
