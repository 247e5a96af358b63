// Plain calls that are made again and again: the second one and all after it begin without a look
// at tables and plans, and whatever goes wrong with them must be reported as if they did.
#include "sennit/sennit.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace sennit {
namespace {

constexpr int kRanks = 3;
using Comms = std::array<sennit_comm_t, kRanks>;

class QuickCalls : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(sennit_comm_init_all(comms_.data(), kRanks, nullptr, nullptr), SENNIT_OK);
  }
  void TearDown() override {
    on_every_rank([&](int rank) { sennit_comm_destroy(comm(rank)); });
  }

  [[nodiscard]] sennit_comm_t comm(int rank) const {
    return comms_[static_cast<std::size_t>(rank)];
  }
  static void on_every_rank(const std::function<void(int)>& body) {
    std::vector<std::jthread> threads;
    threads.reserve(kRanks);
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&body, rank] { body(rank); });
    }
  }

 private:
  Comms comms_{};
};

sennit_status_t sum(sennit_comm_t comm, const std::int32_t* send, std::int32_t* recv, int count) {
  return sennit_all_reduce(send,
                           recv,
                           static_cast<std::size_t>(count),
                           SENNIT_INT32,
                           SENNIT_SUM,
                           comm,
                           nullptr,
                           nullptr);
}

TEST_F(QuickCalls, GiveTheirOwnResultsWhateverCallsLieBetween) {
  on_every_rank([&](int rank) {
    constexpr std::size_t kMost = 5000;
    for (std::int32_t round = 0; round < 40; ++round) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{14}, std::size_t{15}, kMost}) {
        std::vector<std::int32_t> own(count, round + rank);
        std::vector<std::int32_t> all(count * kRanks);
        ASSERT_EQ(sennit_all_gather(
                      own.data(), all.data(), count, SENNIT_INT32, comm(rank), nullptr, nullptr),
                  SENNIT_OK);
        ASSERT_EQ(sum(comm(rank), own.data(), own.data(), static_cast<int>(count)), SENNIT_OK);
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_EQ(own[i], 3 * round + 3);
          ASSERT_EQ(all[i], round);
          ASSERT_EQ(all[2 * count + i], round + 2);
        }
      }
    }
  });
}

TEST_F(QuickCalls, WaitForARankThatIsLate) {
  on_every_rank([&](int rank) {
    for (std::int32_t round = 0; round < 12; ++round) {
      if (round % kRanks == rank) {
        std::this_thread::sleep_for(std::chrono::milliseconds(round));
      }
      const std::int32_t own = round + rank;
      std::int32_t all = 0;
      ASSERT_EQ(sum(comm(rank), &own, &all, 1), SENNIT_OK);
      ASSERT_EQ(all, 3 * round + 3);
    }
  });
}

TEST_F(QuickCalls, RefuseBuffersThatAreMissingOrOverlap) {
  on_every_rank([&](int rank) {
    std::array<std::int32_t, 8> data{};
    for (int round = 0; round < 3; ++round) {
      ASSERT_EQ(sum(comm(rank), data.data(), data.data() + 4, 4), SENNIT_OK);
    }
    EXPECT_EQ(sum(comm(rank), nullptr, data.data(), 4), SENNIT_INVALID_ARGUMENT);
    EXPECT_EQ(sum(comm(rank), data.data(), nullptr, 4), SENNIT_INVALID_ARGUMENT);
    EXPECT_EQ(sum(comm(rank), data.data(), data.data() + 2, 4), SENNIT_INVALID_ARGUMENT);
    EXPECT_EQ(sum(comm(rank), data.data(), data.data(), 4), SENNIT_OK);
  });
}

TEST_F(QuickCalls, TellAMismatchByBothCalls) {
  on_every_rank([&](int rank) {
    std::array<std::int32_t, 8> data{};
    for (int round = 0; round < 3; ++round) {
      ASSERT_EQ(sum(comm(rank), data.data(), data.data(), 4), SENNIT_OK);
      ASSERT_EQ(sum(comm(rank), data.data(), data.data(), 5), SENNIT_OK);
    }
    EXPECT_EQ(sum(comm(rank), data.data(), data.data(), rank == 1 ? 5 : 4), SENNIT_MISMATCH);
    const std::string message = sennit_last_error_message();
    EXPECT_NE(message.find("all_reduce of 4 x int32"), std::string::npos) << message;
    EXPECT_NE(message.find("all_reduce of 5 x int32"), std::string::npos) << message;
  });
}

TEST_F(QuickCalls, EndWhenARankAborts) {
  on_every_rank([&](int rank) {
    std::int32_t data = 0;
    for (int round = 0; round < 3; ++round) {
      ASSERT_EQ(sum(comm(rank), &data, &data, 1), SENNIT_OK);
    }
    if (rank == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      EXPECT_EQ(sennit_comm_abort(comm(rank)), SENNIT_OK);
    }
    EXPECT_EQ(sum(comm(rank), &data, &data, 1), SENNIT_ABORTED);
  });
}

TEST_F(QuickCalls, KeepTheirOrderWithCallsThatAreNotWaitedFor) {
  on_every_rank([&](int rank) {
    for (std::int32_t round = 0; round < 20; ++round) {
      std::int32_t first = rank;
      std::int32_t second = round;
      sennit_work_t work = nullptr;
      sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
      options.work = &work;
      ASSERT_EQ(sennit_all_reduce(
                    &first, &first, 1, SENNIT_INT32, SENNIT_SUM, comm(rank), nullptr, &options),
                SENNIT_OK);
      ASSERT_EQ(sum(comm(rank), &second, &second, 1), SENNIT_OK);
      ASSERT_EQ(sennit_work_wait(work, -1), SENNIT_OK);
      ASSERT_EQ(sennit_work_destroy(work), SENNIT_OK);
      EXPECT_EQ(first, 3);
      EXPECT_EQ(second, 3 * round);
    }
  });
}

}  // namespace
}  // namespace sennit
