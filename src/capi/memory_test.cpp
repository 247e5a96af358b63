// Memory in the C ABI, as far as it needs no GPU.
#include "sennit/sennit.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace {

TEST(Memory, OfTheHostIsWholeCacheLines) {
  void* first = nullptr;
  void* second = nullptr;
  ASSERT_EQ(sennit_mem_alloc(&first, 1), SENNIT_OK);
  ASSERT_EQ(sennit_mem_alloc_on(&second, 0, "host"), SENNIT_OK);
  std::memset(first, 1, 64);
  std::memset(second, 2, 64);
  EXPECT_EQ(static_cast<char*>(first)[63], 1);
  EXPECT_EQ(sennit_mem_free(first), SENNIT_OK);
  EXPECT_EQ(sennit_mem_free(second), SENNIT_OK);
  EXPECT_EQ(sennit_mem_free(nullptr), SENNIT_OK);
}

TEST(Memory, OfNoDeviceIsRefused) {
  void* memory = nullptr;
  EXPECT_EQ(sennit_mem_alloc_on(&memory, 1, "moon"), SENNIT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(sennit_last_error_message()).find("moon"), std::string::npos);
  EXPECT_EQ(sennit_mem_alloc_on(nullptr, 1, "host"), SENNIT_INVALID_ARGUMENT);
}

TEST(Memory, OfHostRanksMayBeRegisteredAndIsUsedAsBefore) {
  sennit_comm_t comm = nullptr;
  ASSERT_EQ(sennit_comm_init_all(&comm, 1, nullptr, nullptr), SENNIT_OK);
  float x = 1;
  for (const auto function : {sennit_comm_register, sennit_comm_register_symmetric}) {
    void* handle = nullptr;
    ASSERT_EQ(function(comm, &x, sizeof(x), &handle), SENNIT_OK);
    EXPECT_EQ(sennit_all_reduce(&x, &x, 1, SENNIT_FLOAT32, SENNIT_SUM, comm, nullptr, nullptr),
              SENNIT_OK);
    EXPECT_EQ(sennit_comm_deregister(comm, handle), SENNIT_OK);
    EXPECT_EQ(function(comm, &x, sizeof(x), nullptr), SENNIT_INVALID_ARGUMENT);
    EXPECT_EQ(function(nullptr, &x, sizeof(x), &handle), SENNIT_INVALID_ARGUMENT);
  }
  EXPECT_EQ(x, 1);
  EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
}

TEST(CallOptions, LimitThreadBlocksToWhatThereCanBe) {
  sennit_comm_t comm = nullptr;
  ASSERT_EQ(sennit_comm_init_all(&comm, 1, nullptr, nullptr), SENNIT_OK);
  sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
  float x = 1;
  const auto call = [&](int blocks) {
    options.device_blocks = blocks;
    return sennit_all_reduce(&x, &x, 1, SENNIT_FLOAT32, SENNIT_SUM, comm, nullptr, &options);
  };
  EXPECT_EQ(call(256), SENNIT_OK);
  EXPECT_EQ(call(257), SENNIT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(sennit_last_error_message()).find("from 1 to 256"), std::string::npos);
  EXPECT_EQ(call(-1), SENNIT_INVALID_ARGUMENT);
  EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
}

}  // namespace
