// A rail that carries nothing any more between ranks that live: which ranks get an error, and what
// it says. Ranks are threads on two nodes, over the cards of a FakeUcx; tests/python/test_nodes.py
// has real cards that are cut off.
#include "drivers/ucx/testing/fake_ucx.hpp"
#include "drivers/ucx/testing/given_ucx.hpp"
#include "sennit/sennit.h"
#include "world/nodes/nodes.hpp"

#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace sennit::tests {
namespace {

constexpr int kRanks = 4;
constexpr std::array kNodes = {"a", "a", "b", "b"};

struct Outcome {
  sennit_status_t status = SENNIT_INTERNAL_ERROR;
  std::string message{};
  std::vector<int> blamed{};
  double seconds = 0;
};

class RailsSilence : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("SENNIT_ROOT", "127.0.0.1", 1);
    ::setenv("SENNIT_RAILS", "rail0,rail1", 1);
    ::setenv("SENNIT_DEADLINE_S", "10", 1);
  }
  void TearDown() override {
    ::unsetenv("SENNIT_ROOT");
    ::unsetenv("SENNIT_RAILS");
    ::unsetenv("SENNIT_DEADLINE_S");
  }

  // Makes a call on all ranks after rail/1, that of ranks 1 and 3, has fallen silent.
  static std::array<Outcome, kRanks> call_in_silence(
      const std::function<sennit_status_t(sennit_comm_t, int rank)>& call) {
    FakeUcx ucx({});
    const GivenUcx given(ucx);
    sennit_unique_id_t id;
    EXPECT_EQ(sennit_unique_id_create(&id), SENNIT_OK);
    std::array<Outcome, kRanks> outcomes;
    std::barrier silence(kRanks, [&]() noexcept { ucx.mute("rail1"); });
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      threads.emplace_back([&, rank, at] {
        set_node_of_this_thread(kNodes[at]);
        sennit_comm_t comm = nullptr;
        EXPECT_EQ(sennit_comm_init_rank(&comm, kRanks, &id, rank, nullptr), SENNIT_OK);
        EXPECT_EQ(sennit_barrier(comm, nullptr, nullptr), SENNIT_OK);
        silence.arrive_and_wait();
        outcomes[at] = outcome_of([&] { return call(comm, rank); });
        silence.arrive_and_wait();
        sennit_comm_destroy(comm);
      });
    }
    threads.clear();
    return outcomes;
  }

 private:
  static Outcome outcome_of(const std::function<sennit_status_t()>& call) {
    const auto begin = std::chrono::steady_clock::now();
    Outcome outcome{.status = call()};
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    outcome.seconds = elapsed.count();
    sennit_error_t error = SENNIT_ERROR_INITIALIZER;
    if (outcome.status != SENNIT_OK && sennit_last_error(&error) == SENNIT_OK) {
      outcome.message = error.message;
      outcome.blamed.assign(error.blamed_ranks, error.blamed_ranks + error.blamed_count);
    }
    return outcome;
  }
};

sennit_status_t all_reduce(sennit_comm_t comm) {
  std::vector<float> data(100'000, 1);
  return sennit_all_reduce(
      data.data(), data.data(), data.size(), SENNIT_FLOAT32, SENNIT_SUM, comm, nullptr, nullptr);
}

TEST_F(RailsSilence, IsReportedLongBeforeTheDeadlineWithTheRailAndBothRanks) {
  int witnesses = 0;  // who have sent something over it
  for (const Outcome& outcome :
       call_in_silence([](sennit_comm_t comm, int /*rank*/) { return all_reduce(comm); })) {
    EXPECT_EQ(outcome.status, SENNIT_SYSTEM_ERROR) << outcome.message;
    EXPECT_LT(outcome.seconds, 3.0) << outcome.message;
    EXPECT_FALSE(outcome.blamed.empty()) << outcome.message;
    const bool is_named = outcome.message.find("rail/1 (rail1) from rank") != std::string::npos;
    witnesses += is_named ? 1 : 0;
    EXPECT_TRUE(is_named || outcome.message.find("both may live") != std::string::npos)
        << outcome.message;
  }
  EXPECT_GT(witnesses, 0);
}

// Rank 1 has sent its part of the first call, and sees in the second that it is lost. Rank 3 has
// sent nothing, and still waits for it in the first.
TEST_F(RailsSilence, IsReportedToWhoStillWaitsForTheCallBefore) {
  const auto outcomes = call_in_silence([](sennit_comm_t comm, int /*rank*/) {
    float value = 0;
    const sennit_status_t first =
        sennit_broadcast(&value, &value, 1, SENNIT_FLOAT32, 1, comm, nullptr, nullptr);
    return first == SENNIT_OK ? all_reduce(comm) : first;
  });
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.status, SENNIT_SYSTEM_ERROR) << outcome.message;
    EXPECT_LT(outcome.seconds, 3.0) << outcome.message;
  }
}

// Ranks 0 and 2 have another card, and others wait for long without a rail.
TEST_F(RailsSilence, ConcernsOnlyWhoNeedsTheRail) {
  const auto outcomes = call_in_silence([](sennit_comm_t comm, int rank) {
    float value = 0;
    if (rank % 2 == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(rank == 0 ? 2500 : 0));
      return rank == 0 ? sennit_send(&value, 1, SENNIT_FLOAT32, 2, comm, nullptr, nullptr)
                       : sennit_recv(&value, 1, SENNIT_FLOAT32, 0, comm, nullptr, nullptr);
    }
    return SENNIT_OK;
  });
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.status, SENNIT_OK) << outcome.message;
  }
}

}  // namespace
}  // namespace sennit::tests
