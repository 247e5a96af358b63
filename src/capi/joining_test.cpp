#include "capi/joining.hpp"

#include "sennit/sennit.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

namespace sennit {
namespace {

sennit_unique_id_t fresh_id() {
  sennit_unique_id_t id;
  EXPECT_EQ(sennit_unique_id_create(&id), SENNIT_OK);
  return id;
}

sennit_comm_t begin_to_join(const sennit_unique_id_t& id, int rank, int size) {
  sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
  config.non_blocking = 1;
  sennit_comm_t comm = nullptr;
  EXPECT_EQ(sennit_comm_init_rank(&comm, size, &id, rank, &config), SENNIT_IN_PROGRESS);
  return comm;
}

sennit_status_t state_of(sennit_comm_t comm) {
  sennit_status_t state = SENNIT_OK;
  EXPECT_EQ(sennit_comm_async_error(comm, &state), SENNIT_OK);
  return state;
}

// Rank 0 of 2 comes, and waits in vain if rank 1 joins no more, which asks 50 times a second.
void expect_rank_1_to_be_missing(const sennit_unique_id_t& id) {
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
  config.join_timeout_s = 0.5;
  sennit_comm_t comm = nullptr;
  EXPECT_EQ(sennit_comm_init_rank(&comm, 2, &id, 0, &config), SENNIT_JOIN_TIMEOUT);
  EXPECT_NE(std::string(sennit_last_error_message()).find("rank 1"), std::string::npos)
      << sennit_last_error_message();
}

TEST(JoiningInTheBackground, EndsWithAnAbort) {
  const sennit_unique_id_t id = fresh_id();
  sennit_comm_t comm = begin_to_join(id, 1, 2);
  EXPECT_EQ(state_of(comm), SENNIT_IN_PROGRESS);
  EXPECT_EQ(sennit_comm_abort(comm), SENNIT_OK);
  EXPECT_EQ(state_of(comm), SENNIT_ABORTED);
  EXPECT_EQ(sennit_barrier(comm, nullptr, nullptr), SENNIT_ABORTED);
  EXPECT_NE(std::string(sennit_last_error_message()).find("aborted while it joined"),
            std::string::npos)
      << sennit_last_error_message();
  expect_rank_1_to_be_missing(id);
  EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
}

TEST(JoiningInTheBackground, EndsWithItsHandle) {
  const sennit_unique_id_t id = fresh_id();
  EXPECT_EQ(sennit_comm_destroy(begin_to_join(id, 1, 2)), SENNIT_OK);
  expect_rank_1_to_be_missing(id);
}

void expect_to_be_aborted(sennit_comm_t comm) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (state_of(comm) == SENNIT_IN_PROGRESS && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(state_of(comm), SENNIT_ABORTED);
}

// Rank 0 stays until every rank has read the failure, or for 5 s. Here all read it, so that its
// thread does not outlive the test program.
TEST(JoiningInTheBackground, ToldByRank0ToThoseThatWaitWithItAndThatComeLate) {
  const sennit_unique_id_t id = fresh_id();
  sennit_comm_t host = begin_to_join(id, 0, 3);
  sennit_comm_t guest = begin_to_join(id, 1, 3);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(sennit_comm_abort(host), SENNIT_OK);
  expect_to_be_aborted(guest);
  sennit_comm_t late = begin_to_join(id, 2, 3);
  expect_to_be_aborted(late);
  for (sennit_comm_t comm : {host, guest, late}) {
    EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
  }
}

// GPU ranks exchange more when the host ranks have joined.
TEST(JoiningInTheBackground, AbortsWhatHasJoinedAlready) {
  for (const bool is_given_up_before : {false, true}) {
    auto made = Communicator::create(
        {.rank = 0, .size = 1, .key = fmt::format("joined {}", ::getpid())}, {});
    ASSERT_TRUE(made.ok()) << made.status().message();
    BackgroundJoin background;
    EXPECT_TRUE(background.reason().ok());
    if (is_given_up_before) {
      background.give_up();
      background.enter(*made);
    } else {
      background.enter(*made);
      background.give_up();
    }
    (*made)->calls().progress();
    EXPECT_EQ((*made)->failure().code(), Code::kAborted);
    EXPECT_EQ(background.reason().code(), Code::kAborted);
  }
}

}  // namespace
}  // namespace sennit
