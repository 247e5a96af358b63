#include "exec/stream/operation_line.hpp"

#include "drivers/cuda/testing/fake_cuda.hpp"
#include "exec/stream/flag.hpp"
#include "exec/stream/player.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

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

class OperationLines : public ::testing::Test {
 protected:
  OperationLines() {
    cuda_.set_costs({.copy_us = [](bool, std::size_t) { return kCopyUs; }, .words_us = kWordsUs});
    auto* const words =
        static_cast<RankWords*>(take(cuda_.map_host(memory_.get(), sizeof(RankWords))));
    player_.emplace(cuda_, std::vector<RankWords*>{words});
    EXPECT_TRUE(player_->reserve(kUsersStream + 1 + OperationLine::kMostStreams).ok());
  }

  std::atomic_ref<std::uint64_t> word(int index) {
    return std::atomic_ref(*(reinterpret_cast<std::uint64_t*>(memory_.get()) + index));
  }
  static Flag flag(int index) { return {.owner = 0, .place = static_cast<std::uint32_t>(index)}; }

  // Behind flag n comes copy n, and flag kCopies + n reports it.
  static OperationList moves(int streams) {
    OperationList list;
    OperationWriter writer(list);
    writer.fork();
    OperationLine line(writer, kUsersStream + 1, streams);
    for (int n = 0; n < kCopies; ++n) {
      writer.consume(line.waits(), flag(n));
      line.has_waited();
      line.copy({.memory = Memory::kOutput, .at = n}, {.memory = Memory::kInput, .at = n}, 1);
      line.has_copied();
      writer.fill(line.signals(), flag(kCopies + n));
    }
    writer.join();
    return list;
  }
  Status play(int streams) {
    return player_->play(moves(streams), {.memories = {{{&from_, 1}, {&to_, 1}}}}, user_);
  }

  FakeCuda cuda_{{}};
  std::unique_ptr<RankWords> memory_ = std::make_unique<RankWords>();
  std::optional<Player> player_;
  void* user_ = take(cuda_.create_stream());
  std::byte* from_ = static_cast<std::byte*>(take(cuda_.allocate(kCopies)));
  std::byte* to_ = static_cast<std::byte*>(take(cuda_.allocate(kCopies)));
};

// In one stream a signal and the next wait are one call. The first wait and the last signal are
// never in parallel with copies.
TEST_F(OperationLines, HaveNoGapsWhereFlagsHaveStreamsOfTheirOwn) {
  const double gaps[] = {1 + kCopies, 1 + kCopies, 2};
  for (int streams = 1; streams <= OperationLine::kMostStreams; ++streams) {
    for (int n = 0; n < 2 * kCopies; ++n) {
      word(n).store(kFull);
    }
    void* const begin = take(cuda_.create_timed_event());
    void* const end = take(cuda_.create_timed_event());
    ASSERT_TRUE(cuda_.record(begin, user_).ok());
    ASSERT_TRUE(play(streams).ok());
    ASSERT_TRUE(cuda_.record(end, user_).ok());
    ASSERT_TRUE(cuda_.synchronize(user_).ok());
    EXPECT_EQ(take(cuda_.elapsed_us(begin, end)),
              std::optional(kCopies * kCopyUs + gaps[streams - 1] * kWordsUs))
        << streams << " streams";
  }
}

TEST_F(OperationLines, CopyBehindWhatTheyAwaitAndSignalBehindWhatTheyCopy) {
  for (int streams = 1; streams <= OperationLine::kMostStreams; ++streams) {
    for (int n = 0; n < kCopies; ++n) {
      word(n).store(kFree);
      word(kCopies + n).store(kFree);
      from_[n] = static_cast<std::byte>(n + 1);
      to_[n] = std::byte{0};
    }
    ASSERT_TRUE(play(streams).ok());
    for (int n = 0; n < kCopies; ++n) {
      EXPECT_EQ(word(kCopies + n).load(), kFree);
      EXPECT_EQ(to_[n], std::byte{0}) << "before its flag was full";
      word(n).store(kFull);
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (word(kCopies + n).load() != kFull && std::chrono::steady_clock::now() < until) {
      }
      ASSERT_EQ(word(kCopies + n).load(), kFull);
      EXPECT_EQ(to_[n], from_[n]);
      EXPECT_EQ(word(n).load(), kFree);
    }
    ASSERT_TRUE(cuda_.synchronize(user_).ok());
    EXPECT_EQ(cuda_.faults(), "");
  }
}

}  // namespace
}  // namespace sennit::stream
