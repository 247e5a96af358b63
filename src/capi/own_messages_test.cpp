// Messages of a host rank to itself.
#include "sennit/sennit.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string>

namespace {

class OwnMessages : public testing::Test {
 protected:
  void SetUp() override {
    sennit_unique_id_t id;
    ASSERT_EQ(sennit_unique_id_create(&id), SENNIT_OK);
    ASSERT_EQ(sennit_comm_init_rank(&comm_, 1, &id, 0, nullptr), SENNIT_OK);
  }
  void TearDown() override { sennit_comm_destroy(comm_); }

  sennit_status_t send(const void* from, std::size_t count, sennit_dtype_t dtype = SENNIT_INT32) {
    return sennit_send(from, count, dtype, 0, comm_, nullptr, nullptr);
  }
  sennit_status_t recv(void* to, std::size_t count, sennit_dtype_t dtype = SENNIT_INT32) {
    return sennit_recv(to, count, dtype, 0, comm_, nullptr, nullptr);
  }

  sennit_comm_t comm_ = nullptr;
};

TEST_F(OwnMessages, ArriveInOrderWhateverTheOrderOfTheEnds) {
  const std::array first{1, 2};
  const std::array second{3};
  std::array<int, 2> one{};
  std::array<int, 1> other{};
  ASSERT_EQ(sennit_group_start(), SENNIT_OK);
  EXPECT_EQ(recv(one.data(), 2), SENNIT_OK);
  EXPECT_EQ(send(first.data(), 2), SENNIT_OK);
  EXPECT_EQ(send(second.data(), 1), SENNIT_OK);
  EXPECT_EQ(recv(other.data(), 1), SENNIT_OK);
  ASSERT_EQ(sennit_group_end(), SENNIT_OK) << sennit_last_error_message();
  EXPECT_EQ(one, first);
  EXPECT_EQ(other, second);
}

TEST_F(OwnMessages, EndTheirWorks) {
  const int value = 7;
  int got = 0;
  sennit_work_t sent = nullptr;
  sennit_work_t received = nullptr;
  sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
  ASSERT_EQ(sennit_group_start(), SENNIT_OK);
  options.work = &sent;
  EXPECT_EQ(sennit_send(&value, 1, SENNIT_INT32, 0, comm_, nullptr, &options), SENNIT_OK);
  options.work = &received;
  EXPECT_EQ(sennit_recv(&got, 1, SENNIT_INT32, 0, comm_, nullptr, &options), SENNIT_OK);
  ASSERT_EQ(sennit_group_end(), SENNIT_OK);
  EXPECT_EQ(sennit_work_wait(received, -1), SENNIT_OK);
  EXPECT_EQ(sennit_work_wait(sent, -1), SENNIT_OK);
  EXPECT_EQ(got, 7);
  EXPECT_EQ(sennit_work_destroy(sent), SENNIT_OK);
  EXPECT_EQ(sennit_work_destroy(received), SENNIT_OK);
}

TEST_F(OwnMessages, MayHaveOneBufferOrNoElements) {
  int value = 7;
  ASSERT_EQ(sennit_group_start(), SENNIT_OK);
  EXPECT_EQ(send(&value, 1), SENNIT_OK);
  EXPECT_EQ(recv(&value, 1), SENNIT_OK);
  EXPECT_EQ(send(nullptr, 0), SENNIT_OK);
  EXPECT_EQ(recv(nullptr, 0), SENNIT_OK);
  ASSERT_EQ(sennit_group_end(), SENNIT_OK);
  EXPECT_EQ(value, 7);
}

// As every other call does.
TEST_F(OwnMessages, RefuseADeadlineThatIsNoNumber) {
  int value = 7;
  sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
  options.deadline_s = std::numeric_limits<double>::quiet_NaN();
  ASSERT_EQ(sennit_group_start(), SENNIT_OK);
  EXPECT_EQ(sennit_send(&value, 1, SENNIT_INT32, 0, comm_, nullptr, &options), SENNIT_OK);
  EXPECT_EQ(recv(&value, 1), SENNIT_OK);
  EXPECT_EQ(sennit_group_end(), SENNIT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(sennit_last_error_message()).find("no number of seconds"),
            std::string::npos);
}

TEST_F(OwnMessages, RefuseTheGroupWhereTheEndsDiffer) {
  const std::array<int, 2> from{1, 2};
  std::array<int, 2> to{};
  ASSERT_EQ(sennit_group_start(), SENNIT_OK);
  EXPECT_EQ(send(from.data(), 2), SENNIT_OK);
  EXPECT_EQ(recv(to.data(), 2, SENNIT_UINT32), SENNIT_OK);
  EXPECT_EQ(sennit_group_end(), SENNIT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(sennit_last_error_message())
                .find("rank 0 sends 2 x int32 to itself, but expects 2 x uint32"),
            std::string::npos)
      << sennit_last_error_message();
  EXPECT_EQ(to, (std::array<int, 2>{}));
}

TEST_F(OwnMessages, RefuseTheGroupWhereAnEndIsMissing) {
  int value = 7;
  ASSERT_EQ(sennit_group_start(), SENNIT_OK);
  EXPECT_EQ(send(&value, 1), SENNIT_OK);
  EXPECT_EQ(sennit_group_end(), SENNIT_INVALID_ARGUMENT);
  EXPECT_NE(
      std::string(sennit_last_error_message()).find("to rank 0 itself has no recv in its group"),
      std::string::npos);
  ASSERT_EQ(sennit_group_start(), SENNIT_OK);
  EXPECT_EQ(recv(&value, 1), SENNIT_OK);
  EXPECT_EQ(sennit_group_end(), SENNIT_INVALID_ARGUMENT);
  EXPECT_NE(
      std::string(sennit_last_error_message()).find("from rank 0 itself has no send in its group"),
      std::string::npos);
  EXPECT_EQ(send(&value, 1), SENNIT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(sennit_last_error_message()).find("into one group"), std::string::npos);
}

TEST_F(OwnMessages, FailAsOtherCallsDoAfterAnAbort) {
  int value = 7;
  ASSERT_EQ(sennit_comm_abort(comm_), SENNIT_OK);
  ASSERT_EQ(sennit_group_start(), SENNIT_OK);
  EXPECT_EQ(send(&value, 1), SENNIT_OK);
  EXPECT_EQ(recv(&value, 1), SENNIT_OK);
  EXPECT_EQ(sennit_group_end(), SENNIT_ABORTED);
}

}  // namespace
