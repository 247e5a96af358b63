// What a waiting rank runs between polls, and communicators that nobody waits for.
#include "sennit/sennit.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

namespace sennit {
namespace {

constexpr int kRanks = 2;

class IdleHook : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(sennit_unique_id_create(&id_), SENNIT_OK); }

  // Rank 0 has the hook; both ranks run `body` with their communicator.
  template <typename Body>
  void run(double after_s, Body&& body) {
    std::array<std::jthread, kRanks> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.at(static_cast<std::size_t>(rank)) = std::jthread([&, rank] {
        sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
        config.deadline_s = 20;
        config.idle_hook = rank == 0 ? &IdleHook::count : nullptr;
        config.idle_argument = this;
        config.idle_after_s = after_s;
        sennit_comm_t comm = nullptr;
        ASSERT_EQ(sennit_comm_init_rank(&comm, kRanks, &id_, rank, &config), SENNIT_OK);
        body(comm, rank);
        EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
      });
    }
  }
  static int count(void* self) {
    auto* const test = static_cast<IdleHook*>(self);
    ++test->calls_;
    if (test->in_hook_) {
      test->in_hook_();
    }
    return test->moves_ ? 1 : 0;
  }
  // As long as rank 0's hook has been called less often. False: it is not called.
  [[nodiscard]] bool wait_for_calls(int most) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (calls_ < most && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
    }
    return calls_ >= most;
  }

  sennit_unique_id_t id_{};
  std::atomic<int> calls_{0};
  std::function<void()> in_hook_;
  std::atomic<bool> moves_{false};  // what the hook returns
};

sennit_status_t sum(sennit_comm_t comm) {
  std::int32_t own = 1;
  std::int32_t all = 0;
  const auto status =
      sennit_all_reduce(&own, &all, 1, SENNIT_INT32, SENNIT_SUM, comm, nullptr, nullptr);
  EXPECT_TRUE(status != SENNIT_OK || all == kRanks);
  return status;
}

TEST_F(IdleHook, RunsAgainAndAgainWhileARankWaits) {
  run(0, [&](sennit_comm_t comm, int rank) {
    for (int round = 1; round <= 5; ++round) {
      if (rank == 1) {
        EXPECT_TRUE(wait_for_calls(100 * round)) << calls_;
      }
      EXPECT_EQ(sum(comm), SENNIT_OK);
    }
  });
}

TEST_F(IdleHook, RunsNotBeforeItsTime) {
  run(3600, [&](sennit_comm_t comm, int rank) {
    if (rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    EXPECT_EQ(sum(comm), SENNIT_OK);
  });
  EXPECT_EQ(calls_, 0);
}

// A rank that sleeps calls it 5 times a millisecond at most.
TEST_F(IdleHook, KeepsARankFromSleepingWhileSomethingMoves) {
  moves_ = true;
  run(0, [&](sennit_comm_t comm, int rank) {
    if (rank == 1) {
      // Twice as long as the test waits, if it slept.
      EXPECT_TRUE(wait_for_calls(100'000)) << calls_;
    }
    EXPECT_EQ(sum(comm), SENNIT_OK);
  });
}

// It runs outside of locks: whatever else the rank has may make progress in it.
TEST_F(IdleHook, MayUseAnotherCommunicatorOfItsThread) {
  std::array<sennit_comm_t, kRanks> others{};
  ASSERT_EQ(sennit_comm_init_all(others.data(), kRanks, nullptr, nullptr), SENNIT_OK);
  bool is_done = false;
  sennit_status_t inner = SENNIT_INTERNAL_ERROR;
  in_hook_ = [&] {
    if (!is_done) {
      is_done = true;
      inner = sum(others[0]);
    }
  };
  run(0, [&](sennit_comm_t comm, int rank) {
    if (rank == 1) {
      EXPECT_EQ(sum(others[1]), SENNIT_OK);  // rank 0 comes to it in its hook alone
    }
    EXPECT_EQ(sum(comm), SENNIT_OK);
  });
  EXPECT_EQ(inner, SENNIT_OK);
  for (const sennit_comm_t comm : others) {
    sennit_comm_destroy(comm);
  }
}

TEST(IdleCommunicators, AreToldToHaveBeenAborted) {
  std::array<sennit_comm_t, kRanks> comms{};
  ASSERT_EQ(sennit_comm_init_all(comms.data(), kRanks, nullptr, nullptr), SENNIT_OK);
  ASSERT_EQ(sennit_comm_abort(comms[0]), SENNIT_OK);
  sennit_status_t state = SENNIT_OK;
  EXPECT_EQ(sennit_comm_async_error(comms[0], &state), SENNIT_OK);
  EXPECT_EQ(state, SENNIT_ABORTED);
  EXPECT_EQ(sum(comms[0]), SENNIT_ABORTED);
  for (const sennit_comm_t comm : comms) {
    sennit_comm_destroy(comm);
  }
}

TEST(IdleTimes, ThatCannotBeAreRefused) {
  sennit_unique_id_t id{};
  ASSERT_EQ(sennit_unique_id_create(&id), SENNIT_OK);
  for (const bool hook : {true, false}) {
    sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
    config.idle_hook = [](void*) { return 0; };
    (hook ? config.idle_after_s : config.first_warning_s) = -1;
    sennit_comm_t comm = nullptr;
    EXPECT_EQ(sennit_comm_init_rank(&comm, 1, &id, 0, &config), SENNIT_INVALID_ARGUMENT);
    EXPECT_NE(std::string(sennit_last_error_message()).find("-1"), std::string::npos);
  }
}

}  // namespace
}  // namespace sennit
