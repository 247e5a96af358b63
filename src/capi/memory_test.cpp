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

}  // namespace
