#include "exec/stream/stopwatch.hpp"

#include "drivers/cuda/testing/fake_cuda.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <utility>

namespace sennit::stream {
namespace {

using State = Stopwatch::Reading::State;

template <typename T>
T take(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  return std::move(result).value();
}

// Two streams, and copies that take a microsecond a byte.
class Stopwatches : public ::testing::Test {
 protected:
  Stopwatches() {
    cuda_.set_costs(
        {.copy_us = [](bool, std::size_t bytes) { return static_cast<double>(bytes); }});
    EXPECT_TRUE(watch_.open().ok());
  }

  void copy(std::size_t bytes, void* stream) {
    std::byte* const to = stream == first_ ? memory_ : memory_ + 512;
    EXPECT_TRUE(cuda_.copy_async(to, memory_ + 1024, bytes, stream).ok());
  }
  void finish() {
    EXPECT_TRUE(cuda_.synchronize(first_).ok());
    EXPECT_TRUE(cuda_.synchronize(second_).ok());
  }

  FakeCuda cuda_{{}};
  Stopwatch watch_{cuda_};
  void* first_ = take(cuda_.create_stream());
  void* second_ = take(cuda_.create_stream());
  std::byte* memory_ = static_cast<std::byte*>(take(cuda_.allocate(2048)));
};

TEST_F(Stopwatches, TellWhatEachStrandTakes) {
  copy(5, first_);
  ASSERT_TRUE(watch_.begin(first_).ok());
  copy(70, first_);
  ASSERT_TRUE(watch_.end(Stopwatch::kDirect, first_).ok());
  copy(30, second_);
  ASSERT_TRUE(watch_.end(Stopwatch::kHost, second_).ok());
  finish();
  const Stopwatch::Reading both = watch_.read();
  EXPECT_EQ(both.state, State::kDone);
  EXPECT_EQ(both.direct_us, 70);
  EXPECT_EQ(both.host_us, 25);
  watch_.reset();
  EXPECT_EQ(watch_.read().state, State::kVoid);
  ASSERT_TRUE(watch_.begin(first_).ok());
  copy(8, first_);
  ASSERT_TRUE(watch_.end(Stopwatch::kDirect, first_).ok());
  finish();
  EXPECT_EQ(watch_.read().state, State::kDone);
  EXPECT_EQ(watch_.read().direct_us, 8);
  EXPECT_EQ(watch_.read().host_us, 0) << "there was none";
}

TEST_F(Stopwatches, DoNotWaitForWhatIsUnderWay) {
  const MappedMemory gate = take(cuda_.allocate_mapped(64));
  auto* const word = static_cast<std::uint64_t*>(gate.host);
  ASSERT_TRUE(watch_.begin(first_).ok());
  copy(8, first_);
  ASSERT_TRUE(watch_.end(Stopwatch::kDirect, first_).ok());
  const WordStep wait{WordStep::Kind::kAwait, word, 1};
  ASSERT_TRUE(cuda_.walk_words({&wait, 1}, second_).ok());
  copy(9, second_);
  ASSERT_TRUE(watch_.end(Stopwatch::kHost, second_).ok());
  EXPECT_TRUE(cuda_.synchronize(first_).ok());
  EXPECT_EQ(watch_.read().state, State::kUnderWay);
  std::atomic_ref(*word).store(1);
  finish();
  EXPECT_EQ(watch_.read().state, State::kDone);
  EXPECT_TRUE(cuda_.release_mapped(gate).ok());
}

TEST_F(Stopwatches, SayNothingOfAStrandThatEndedBeforeTheyBegan) {
  copy(5, first_);
  ASSERT_TRUE(watch_.begin(first_).ok());
  copy(3, second_);
  ASSERT_TRUE(watch_.end(Stopwatch::kHost, second_).ok());
  finish();
  EXPECT_EQ(watch_.read().state, State::kVoid);
}

TEST_F(Stopwatches, FailAsTheDriverDoesAndGiveEventsBack) {
  FakeCuda cuda({});
  for (const int nth : {1, 2, 3}) {
    cuda.fail("create_timed_event", nth);
    Stopwatch watch(cuda);
    EXPECT_EQ(watch.open().code(), Code::kSystemError);
  }
  EXPECT_EQ(cuda.left_over(), 0);
  cuda_.fail("elapsed_us");
  ASSERT_TRUE(watch_.begin(first_).ok());
  ASSERT_TRUE(watch_.end(Stopwatch::kDirect, first_).ok());
  EXPECT_EQ(watch_.read().state, State::kVoid);
}

}  // namespace
}  // namespace sennit::stream
