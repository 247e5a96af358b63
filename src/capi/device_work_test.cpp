// Works of GPU calls: what waiting for one says about its stream, and how it ends.
#include "capi/testing/device_works.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <thread>

namespace sennit::tests {
namespace {

// What holds a rank's stream up holds up the calls of all, for which their works wait.
TEST_F(DeviceWorks, EndWhenTheStreamHasRunPastTheCall) {
  run_with_handles([this](Rank& rank, Caller& caller) {
    std::optional<HeldStream> held;
    if (rank.rank == kRanks - 1) {
      held.emplace(rank, rank.stream);
    }
    sennit_work_t work = nullptr;
    ASSERT_EQ(caller.all_gather(kPart, &work), SENNIT_OK) << sennit_last_error_message();
    EXPECT_EQ(sennit_work_wait(work, 0.02), SENNIT_IN_PROGRESS);
    EXPECT_FALSE(is_done(work));
    meet();
    if (held) {
      held->open();
    }
    ASSERT_EQ(sennit_work_wait(work, kNoLimit), SENNIT_OK) << sennit_last_error_message();
    // Without a look at the stream: that is what a work is for.
    check_gathered(rank);
    EXPECT_TRUE(is_done(work));
    destroy(work);
    EXPECT_EQ(rank.launches(), 0);
  });
}

TEST_F(DeviceWorks, OfKernelsWaitForWhatIsBeforeThemInTheStream) {
  run_with_handles([](Rank& rank, Caller& caller) {
    const HeldStream held(rank, rank.stream);
    sennit_work_t work = caller.small_call();
    EXPECT_EQ(sennit_work_wait(work, 0), SENNIT_IN_PROGRESS);
    held.open();
    EXPECT_EQ(sennit_work_wait(work, kNoLimit), SENNIT_OK);
    destroy(work);
  });
}

TEST_F(DeviceWorks, DoNotWaitForWhatIsBehindThemInTheStream) {
  run_with_handles([](Rank& rank, Caller& caller) {
    sennit_work_t work = caller.small_call();
    const HeldStream held(rank, rank.stream);
    EXPECT_EQ(sennit_work_wait(work, 10), SENNIT_OK);
    EXPECT_TRUE(is_done(work));
    held.open();
    destroy(work);
  });
}

TEST_F(DeviceWorks, OfCallsThatMoveNothingEndInStreamOrderToo) {
  run_with_handles([](Rank& rank, Caller& caller) {
    const HeldStream held(rank, rank.stream);
    sennit_work_t work = nullptr;
    ASSERT_EQ(caller.all_gather(0, &work), SENNIT_OK);
    EXPECT_EQ(sennit_work_wait(work, 0.01), SENNIT_IN_PROGRESS);
    held.open();
    EXPECT_EQ(sennit_work_wait(work, kNoLimit), SENNIT_OK);
    destroy(work);
    EXPECT_EQ(rank.launches(), 0);
  });
}

TEST_F(DeviceWorks, AreWaitedForUntilTheTimeIsOver) {
  run_with_handles([](Rank& rank, Caller& caller) {
    const HeldStream held(rank, rank.stream);
    sennit_work_t work = caller.small_call();
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(sennit_work_wait(work, 0.05), SENNIT_IN_PROGRESS);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(50));
    held.open();
    EXPECT_EQ(sennit_work_wait(work, 60), SENNIT_OK);
    destroy(work);
  });
}

TEST_F(DeviceWorks, AreWaitedForBeforeTheyAreDestroyed) {
  run_with_handles([](Rank& rank, Caller& caller) {
    const HeldStream held(rank, rank.stream);
    sennit_work_t work = caller.small_call();
    std::atomic<bool> is_open{false};
    const std::jthread opener([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      is_open = true;
      held.open();
    });
    destroy(work);
    EXPECT_TRUE(is_open);
  });
}

TEST_F(DeviceWorks, WaitOnAnyThreadAndLeaveItsDeviceAsItIs) {
  run_with_handles([](Rank& rank, Caller& caller) {
    sennit_work_t work = caller.small_call();
    std::jthread([&] {
      ASSERT_TRUE(rank.cuda->use_device(0).ok());
      const int changes = rank.cuda->calls("use_device");
      EXPECT_EQ(sennit_work_wait(work, kNoLimit), SENNIT_OK);
      destroy(work);
      EXPECT_EQ(*rank.cuda->current_device(), 0);
      // A query without it would make a context on device 0.
      EXPECT_EQ(rank.cuda->calls("use_device") > changes, rank.rank != 0);
    }).join();
  });
}

// A rank of the host communicator waits for rank 0, which waits for its GPU call meanwhile.
TEST_F(DeviceWorks, DriveHostCallsWhileTheyAreWaitedFor) {
  comm_config_.deadline_s = 20;
  std::atomic<int> through{0};
  run_with_handles([&](Rank& rank, Caller& caller) {
    sennit_comm host;
    host.comm = rank.joined;
    host.engine = ProgressEngine::of_this_thread();
    if (rank.rank != 0) {
      EXPECT_EQ(sennit_barrier(&host, nullptr, nullptr), SENNIT_OK) << sennit_last_error_message();
      ++through;
      return;
    }
    const HeldStream held(rank, rank.stream);
    const std::jthread opener([&] {
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      while (through < kRanks - 1 && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      held.open();
    });
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    sennit_work_t barrier = nullptr;
    options.work = &barrier;
    EXPECT_EQ(sennit_barrier(&host, nullptr, &options), SENNIT_OK);
    sennit_work_t work = caller.small_call();
    EXPECT_EQ(sennit_work_wait(work, kNoLimit), SENNIT_OK);
    EXPECT_EQ(through, kRanks - 1);
    destroy(work);
    destroy(barrier);
  });
}

TEST_F(DeviceWorks, EndWithTheAbortThatLeavesTheirStreamWaiting) {
  run_with_handles([this](Rank& rank, Caller& caller) {
    const HeldStream held(rank, rank.stream);
    sennit_work_t work = caller.small_call();
    auto waiting = std::async(std::launch::async, [&] { return sennit_work_wait(work, kNoLimit); });
    EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
    meet();  // the first abort ends the waits of all ranks
    EXPECT_EQ(sennit_comm_abort(caller.handle), SENNIT_OK);
    if (waiting.wait_for(std::chrono::seconds(10)) != std::future_status::ready) {
      ADD_FAILURE() << "the wait goes on";
      held.open();
    }
    EXPECT_EQ(waiting.get(), SENNIT_ABORTED);
    destroy(work);  // although its stream still waits
  });
}

TEST_F(DeviceWorks, EndWithTheFailureOfAnotherRank) {
  run_with_handles([](Rank& rank, Caller& caller) {
    if (rank.rank == 1) {
      EXPECT_EQ(sennit_comm_abort(caller.handle), SENNIT_OK);
      return;
    }
    const HeldStream held(rank, rank.stream);
    sennit_work_t work = nullptr;
    // It may be refused already, if the abort comes first.
    const sennit_status_t status = caller.all_gather(kFew, &work);
    EXPECT_EQ(status == SENNIT_OK ? sennit_work_wait(work, 10) : status, SENNIT_ABORTED);
    sennit_error_t error = SENNIT_ERROR_INITIALIZER;
    EXPECT_EQ(sennit_last_error(&error), SENNIT_OK);
    EXPECT_EQ(error.blamed_count, 1U) << error.message;
    held.open();
    destroy(work);
  });
}

// Streams go on after a failure, so that they have come past a call does not say that it ended
// well.
TEST_F(DeviceWorks, ThatFailInTheirStreamSaySo) {
  options_.deadline_s = 0.3;
  run_with_handles([this](Rank& rank, Caller& caller) {
    std::optional<HeldStream> held;
    if (rank.rank == kRanks - 1) {
      held.emplace(rank, rank.stream);
    }
    sennit_work_t work = nullptr;
    ASSERT_EQ(caller.all_gather(kPart, &work), SENNIT_OK) << sennit_last_error_message();
    if (rank.rank != kRanks - 1) {
      rank.finish();
    }
    EXPECT_EQ(sennit_work_wait(work, kNoLimit), SENNIT_DEADLINE_EXCEEDED)
        << sennit_last_error_message();
    destroy(work);
    meet();
  });
}

TEST_F(DeviceWorks, ThatWereSeenToEndWellStaySo) {
  run_with_handles([this](Rank& rank, Caller& caller) {
    sennit_work_t seen = caller.small_call();
    sennit_work_t unseen = caller.small_call();
    EXPECT_EQ(sennit_work_wait(seen, kNoLimit), SENNIT_OK);
    rank.finish();
    meet();
    EXPECT_EQ(sennit_comm_abort(caller.handle), SENNIT_OK);
    EXPECT_EQ(sennit_work_wait(seen, kNoLimit), SENNIT_OK);
    // No call has run into the abort, so this one did not either.
    EXPECT_EQ(sennit_work_wait(unseen, kNoLimit), SENNIT_OK);
    destroy(seen);
    destroy(unseen);
  });
}

// What the host asks while it waits is not the call's.
TEST_F(DeviceWorks, CostCallsWithoutOneNoEvent) {
  run_with_handles([](Rank& rank, Caller& caller) {
    const auto events = [&] {
      return std::array{rank.cuda->calls("create_event"),
                        rank.cuda->calls("record"),
                        rank.cuda->calls("is_capturing")};
    };
    ASSERT_EQ(caller.all_gather(kFew, nullptr), SENNIT_OK);
    const auto before = events();
    ASSERT_EQ(caller.all_gather(kFew, nullptr), SENNIT_OK);
    const auto without = events();
    sennit_work_t work = caller.small_call();
    const auto with = events();
    EXPECT_EQ(without[0], before[0]);
    EXPECT_EQ(with[0], without[0] + 1);
    EXPECT_EQ(with[1] - without[1], without[1] - before[1] + 1);
    EXPECT_EQ(with[2] - without[2], without[2] - before[2] + 1);
    destroy(work);
  });
}

}  // namespace
}  // namespace sennit::tests
