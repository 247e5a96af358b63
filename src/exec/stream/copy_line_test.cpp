#include "exec/stream/copy_line.hpp"

#include "drivers/cuda/testing/fake_cuda.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <utility>

namespace sennit::stream {
namespace {

template <typename T>
T take(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  return std::move(result).value();
}

constexpr double kCopyUs = 100;
constexpr double kWordsUs = 10;
constexpr int kCopies = 7;

class CopyLines : public ::testing::Test {
 protected:
  CopyLines() {
    cuda_.set_costs({.copy_us = [](bool, std::size_t) { return kCopyUs; }, .words_us = kWordsUs});
    words_ = static_cast<std::uint64_t*>(take(cuda_.map_host(memory_.data(), sizeof(memory_))));
    EXPECT_TRUE(sides_.open(CopyLine::kMostStreams).ok());
  }
  ~CopyLines() override { sides_.close(); }

  std::uint64_t word(int index) {
    return std::atomic_ref(memory_[static_cast<std::size_t>(index)]).load();
  }
  void fill_word(int index) {
    std::atomic_ref(memory_[static_cast<std::size_t>(index)]).store(kFull);
  }
  // Behind word n comes copy n, and word kCopies + n tells of it.
  void move(CopyLine& line, int n) {
    std::vector<WordStep> steps;
    consume(steps, words_ + n);
    EXPECT_TRUE(line.await(steps).ok());
    EXPECT_TRUE(line.copy(to_ + n, from_ + n, 1).ok());
    EXPECT_TRUE(line.tell({fill(words_ + kCopies + n)}).ok());
  }

  FakeCuda cuda_{{}};
  alignas(4096) std::array<std::uint64_t, 512> memory_{};  // a page
  std::uint64_t* words_ = nullptr;                         // as the device sees them
  SideStreams sides_{cuda_};
  void* user_ = take(cuda_.create_stream());
  std::byte* from_ = static_cast<std::byte*>(take(cuda_.allocate(kCopies)));
  std::byte* to_ = static_cast<std::byte*>(take(cuda_.allocate(kCopies)));
};

// The first wait and the last word are not beside copies.
TEST_F(CopyLines, HaveNoGapsWhereWordsHaveStreamsOfTheirOwn) {
  const double gaps[] = {2 * kCopies, 1 + kCopies, 2};
  for (int streams = 1; streams <= CopyLine::kMostStreams; ++streams) {
    memory_.fill(kFull);
    void* const begin = take(cuda_.create_timed_event());
    void* const end = take(cuda_.create_timed_event());
    ASSERT_TRUE(cuda_.record(begin, user_).ok());
    ASSERT_TRUE(sides_.fork(user_).ok());
    CopyLine line(cuda_, sides_, 0, streams);
    for (int n = 0; n < kCopies; ++n) {
      move(line, n);
    }
    ASSERT_TRUE(sides_.join(user_).ok());
    ASSERT_TRUE(cuda_.record(end, user_).ok());
    ASSERT_TRUE(cuda_.synchronize(user_).ok());
    EXPECT_EQ(take(cuda_.elapsed_us(begin, end)),
              std::optional(kCopies * kCopyUs + gaps[streams - 1] * kWordsUs))
        << streams << " streams";
  }
}

TEST_F(CopyLines, CopyBehindWhatTheyAwaitAndTellBehindWhatTheyCopy) {
  for (int streams = 1; streams <= CopyLine::kMostStreams; ++streams) {
    memory_.fill(kFree);
    for (int n = 0; n < kCopies; ++n) {
      from_[n] = static_cast<std::byte>(n + 1);
      to_[n] = std::byte{0};
    }
    ASSERT_TRUE(sides_.fork(user_).ok());
    CopyLine line(cuda_, sides_, 0, streams);
    for (int n = 0; n < kCopies; ++n) {
      move(line, n);
    }
    ASSERT_TRUE(sides_.join(user_).ok());
    for (int n = 0; n < kCopies; ++n) {
      EXPECT_EQ(word(kCopies + n), kFree);
      EXPECT_EQ(to_[n], std::byte{0}) << "before its word was filled";
      fill_word(n);
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (word(kCopies + n) != kFull && std::chrono::steady_clock::now() < until) {
      }
      ASSERT_EQ(word(kCopies + n), kFull);
      EXPECT_EQ(to_[n], from_[n]);
      EXPECT_EQ(word(n), kFree);
    }
    ASSERT_TRUE(cuda_.synchronize(user_).ok());
    EXPECT_EQ(cuda_.faults(), "");
  }
}

}  // namespace
}  // namespace sennit::stream
