#include "capi/guard.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

namespace sennit {
namespace {

Status failure_with_detail() {
  ErrorDetail detail;
  detail.op = "all_reduce";
  detail.rank = 1;
  detail.blamed_ranks = {2, 3};
  detail.next = "restart rank 2";
  return {Code::kRankFailed, "rank 2 died", detail};
}

TEST(LastError, KeepsTheFieldsOfTheLastFailure) {
  EXPECT_EQ(guard([] { return failure_with_detail(); }), SENNIT_RANK_FAILED);
  EXPECT_EQ(guard([] { return Status(); }), SENNIT_OK);
  EXPECT_EQ(guard([] { return Status(Code::kInProgress, "not yet"); }), SENNIT_IN_PROGRESS);

  sennit_error_t error = SENNIT_ERROR_INITIALIZER;
  ASSERT_EQ(sennit_last_error(&error), SENNIT_OK);
  EXPECT_EQ(error.struct_size, sizeof(error));
  EXPECT_EQ(error.status, SENNIT_RANK_FAILED);
  EXPECT_STREQ(error.message, "rank 2 died");
  EXPECT_STREQ(error.op, "all_reduce");
  EXPECT_STREQ(error.dtype, "");
  EXPECT_EQ(error.rank, 1);
  ASSERT_EQ(error.blamed_count, 2U);
  EXPECT_EQ(error.blamed_ranks[1], 3);
  EXPECT_STREQ(error.next, "restart rank 2");
  EXPECT_STREQ(sennit_last_error_message(), "rank 2 died");
}

TEST(LastError, FillsNoMoreThanAnOlderCallersStruct) {
  EXPECT_EQ(guard([] { return failure_with_detail(); }), SENNIT_RANK_FAILED);
  sennit_error_t error = SENNIT_ERROR_INITIALIZER;
  error.struct_size = offsetof(sennit_error_t, op);
  const char* const untouched = "untouched";
  error.op = untouched;
  ASSERT_EQ(sennit_last_error(&error), SENNIT_OK);
  EXPECT_STREQ(error.message, "rank 2 died");
  EXPECT_EQ(error.op, untouched);
}

TEST(LastError, RefusesNullAndAStructWithoutSize) {
  sennit_error_t error{};
  EXPECT_EQ(sennit_last_error(nullptr), SENNIT_INVALID_ARGUMENT);
  EXPECT_EQ(sennit_last_error(&error), SENNIT_INVALID_ARGUMENT);
}

TEST(LastError, BelongsToTheThread) {
  EXPECT_EQ(guard([] { return failure_with_detail(); }), SENNIT_RANK_FAILED);
  std::thread([] {
    sennit_error_t error = SENNIT_ERROR_INITIALIZER;
    ASSERT_EQ(sennit_last_error(&error), SENNIT_OK);
    EXPECT_EQ(error.status, SENNIT_OK);
    EXPECT_STREQ(error.message, "");
  }).join();
}

TEST(Guard, LetsNoExceptionOut) {
  EXPECT_EQ(guard([]() -> Status { throw std::bad_alloc(); }), SENNIT_SYSTEM_ERROR);
  EXPECT_STREQ(sennit_last_error_message(), "out of memory on the host");
  EXPECT_EQ(guard([]() -> Status { throw std::runtime_error("boom"); }), SENNIT_INTERNAL_ERROR);
  EXPECT_STREQ(sennit_last_error_message(), "an exception reached the C ABI: boom");
}

TEST(StatusText, IsThereForEveryValue) {
  EXPECT_STREQ(sennit_status_name(SENNIT_JOIN_TIMEOUT), "SENNIT_JOIN_TIMEOUT");
  EXPECT_STREQ(sennit_status_text(SENNIT_OK), "success");
  EXPECT_STREQ(sennit_status_name(static_cast<sennit_status_t>(999)), "SENNIT_UNKNOWN");
  EXPECT_STRNE(sennit_status_text(static_cast<sennit_status_t>(999)), "");
}

TEST(Version, NumberAndTextAgree) {
  const int version = sennit_version();
  EXPECT_EQ(std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
                std::to_string(version % 100),
            sennit_version_string());
}

}  // namespace
}  // namespace sennit
