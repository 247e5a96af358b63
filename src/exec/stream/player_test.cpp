#include "exec/stream/player.hpp"

#include "drivers/cuda/testing/fake_cuda.hpp"
#include "exec/stream/operation_writer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sennit::stream {
namespace {

template <typename T>
T take(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  return std::move(result).value();
}

class Players : public ::testing::Test {
 protected:
  Players() {
    words_ = static_cast<RankWords*>(take(cuda_.map_host(memory_.get(), sizeof(RankWords))));
    player_ = std::make_unique<Player>(cuda_, std::vector<RankWords*>{words_});
    EXPECT_TRUE(player_->reserve(4).ok());
    bytes_ = {static_cast<std::byte*>(take(cuda_.allocate(64)))};
    scene_.memories = {bytes_, bytes_, bytes_, bytes_};
  }
  ~Players() override { player_.reset(); }

  Status play() { return player_->play(list_, scene_, stream_); }

  FakeCuda cuda_{{}};
  std::unique_ptr<RankWords[]> memory_ = std::make_unique<RankWords[]>(1);
  RankWords* words_ = nullptr;
  void* stream_ = take(cuda_.create_stream());
  std::unique_ptr<Player> player_;
  std::array<std::byte*, 1> bytes_{};
  Scene scene_;
  OperationList list_;
  OperationWriter writer_{list_};
};

TEST_F(Players, TakeOneCallForFlagsThatFollowOneAnother) {
  for (int i = 0; i < 10; ++i) {
    writer_.fill(kUsersStream, filled_flag(0, i, 0));
    writer_.consume(kUsersStream, filled_flag(0, i, 0));
  }
  ASSERT_TRUE(play().ok());
  EXPECT_EQ(cuda_.calls("walk_words"), 1);
  list_.clear();
  for (std::size_t i = 0; i <= kMaxWordSteps; ++i) {
    writer_.fill(kUsersStream, emptied_flag(0, static_cast<int>(i) % kMaxRanks, 0));
  }
  ASSERT_TRUE(play().ok());
  EXPECT_EQ(cuda_.calls("walk_words"), 3) << "more than a driver takes at once";
}

TEST_F(Players, KeepFlagsApartThatSomethingIsBetween) {
  writer_.fork();
  writer_.fill(kUsersStream, filled_flag(0, 0, 0));
  writer_.put(kUsersStream, CopyBytes{.to = {}, .from = {.at = 8}, .bytes = 8});
  writer_.fill(kUsersStream, filled_flag(0, 0, 1));
  writer_.fill(2, filled_flag(0, 0, 2));
  writer_.fill(kUsersStream, filled_flag(0, 0, 3));
  writer_.join();
  ASSERT_TRUE(play().ok());
  EXPECT_EQ(cuda_.calls("walk_words"), 4);
  EXPECT_TRUE(cuda_.synchronize(stream_).ok());
  for (int slot = 0; slot < 4; ++slot) {
    EXPECT_EQ(memory_[0].filled[0][static_cast<std::size_t>(slot)], kFull) << slot;
  }
}

TEST_F(Players, TakeOneLaunchForCopiesThatFollowOneAnother) {
  std::vector<int> launched;
  cuda_.watch([&](const FakeCuda::Issued& issued) {
    if (issued.what == FakeCuda::Issued::What::kLaunch) {
      launched.push_back(static_cast<const CopiesCall*>(issued.parameters)->count);
    }
  });
  static constexpr char kKernel = 0;
  scene_.copy = &kKernel;
  cuda_.run_kernels([](const void*, const void*) { return [] {}; });
  const auto copies = [&](int count) {
    for (int i = 0; i < count; ++i) {
      writer_.put(kUsersStream,
                  CopyBytes{.to = {}, .from = {.at = 8}, .bytes = 8, .is_by_kernel = true});
    }
  };
  copies(3);
  writer_.fill(kUsersStream, filled_flag(0, 0, 0));
  copies(1);
  writer_.put(kUsersStream, CopyBytes{.to = {}, .from = {.at = 8}, .bytes = 8});
  copies(65);
  ASSERT_TRUE(play().ok());
  EXPECT_EQ(launched, (std::vector{3, 1, 64, 1})) << "64 are the most of a launch";
  EXPECT_EQ(cuda_.calls("copy_async"), 1);
  EXPECT_EQ(cuda_.calls("walk_words"), 1);
}

TEST_F(Players, LaunchTheCallersKernelsInTheirPlace) {
  std::string order;
  cuda_.watch([&](const FakeCuda::Issued& issued) {
    order += issued.what == FakeCuda::Issued::What::kWalk ? "flags " : "other ";
  });
  scene_.launch = [&]() -> Status {
    order += "kernels ";
    return {};
  };
  writer_.fill(kUsersStream, filled_flag(0, 0, 0));
  writer_.put(kUsersStream, LaunchKernels{});
  writer_.fill(kUsersStream, filled_flag(0, 0, 1));
  ASSERT_TRUE(play().ok());
  EXPECT_EQ(order, "flags kernels flags ");
}

// What was begun in parallel is at work in the buffers.
TEST_F(Players, JoinWhatWasBegunBeforeAFailure) {
  writer_.fork();
  writer_.consume(1, filled_flag(0, 0, 0));
  writer_.put(2, CopyBytes{.to = {}, .from = {.at = 8}, .bytes = 8});
  writer_.put(3, CopyBytes{.to = {}, .from = {.at = 8}, .bytes = 8});
  writer_.join();
  cuda_.fail("copy_async", 2);
  EXPECT_EQ(play().code(), Code::kSystemError);
  writer_.fill(kUsersStream, filled_flag(0, 0, 1));
  const WordStep mark{WordStep::Kind::kStore, &words_->filled[0][1], kFull};
  ASSERT_TRUE(cuda_.walk_words({&mark, 1}, stream_).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(std::atomic_ref(memory_[0].filled[0][1]).load(), kFree) << "stream 1 waits";
  std::atomic_ref(memory_[0].filled[0][0]).store(kFull);
  EXPECT_TRUE(cuda_.synchronize(stream_).ok());
  EXPECT_EQ(memory_[0].filled[0][1], kFull);
}

TEST_F(Players, ReserveAllStreamsOrNone) {
  const int before = cuda_.calls("create_stream");
  cuda_.fail("create_stream", 2);
  EXPECT_FALSE(player_->reserve(8).ok());
  EXPECT_EQ(cuda_.calls("destroy_stream"), 1);
  EXPECT_TRUE(player_->reserve(4).ok());
  EXPECT_EQ(cuda_.calls("create_stream"), before + 2) << "those there were are enough";
  EXPECT_TRUE(player_->reserve(6).ok());
  EXPECT_EQ(cuda_.calls("create_stream"), before + 4);
}

TEST_F(Players, GiveStreamsAndEventsBack) {
  player_.reset();
  EXPECT_TRUE(cuda_.destroy_stream(stream_).ok());
  EXPECT_TRUE(cuda_.release(bytes_[0]).ok());
  EXPECT_TRUE(cuda_.unmap_host(memory_.get()).ok());
  EXPECT_EQ(cuda_.left_over(), 0);
}

}  // namespace
}  // namespace sennit::stream
