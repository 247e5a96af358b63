#include "base/json.hpp"
#include "sennit/tools.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace sennit {
namespace {

constexpr std::size_t kCount = 100;

std::size_t room_for(const char* codec, sennit_dtype_t dtype, std::size_t count) {
  std::size_t room = 0;
  EXPECT_EQ(sennit_tool_encode(codec, dtype, nullptr, count, nullptr, 0, &room), SENNIT_OK)
      << sennit_last_error_message();
  return room;
}

TEST(CodecTool, EncodesAndDecodes) {
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    values[i] = static_cast<float>(i);
  }
  std::vector<unsigned char> coded(room_for("q8", SENNIT_FLOAT32, kCount));
  std::size_t bytes = 0;
  ASSERT_EQ(sennit_tool_encode(
                "q8", SENNIT_FLOAT32, values.data(), kCount, coded.data(), coded.size(), &bytes),
            SENNIT_OK);
  EXPECT_EQ(bytes, 4u * 34u);
  std::vector<float> decoded(kCount);
  ASSERT_EQ(sennit_tool_decode("q8", SENNIT_FLOAT32, coded.data(), bytes, decoded.data(), kCount),
            SENNIT_OK);
  for (std::size_t i = 0; i < kCount; ++i) {
    EXPECT_NEAR(decoded[i], values[i], 0.5) << i;
  }
}

TEST(CodecTool, OfNothingPointersMayBeNull) {
  std::size_t bytes = 7;
  unsigned char coded = 0;
  EXPECT_EQ(sennit_tool_encode("zfp:8", SENNIT_FLOAT32, nullptr, 0, &coded, 0, &bytes), SENNIT_OK);
  EXPECT_EQ(bytes, 0u);
  EXPECT_EQ(sennit_tool_decode("zfp:8", SENNIT_FLOAT32, nullptr, 0, nullptr, 0), SENNIT_OK);
}

TEST(CodecTool, WhatIsWrongIsNamed) {
  const float values[4] = {1, 2, 3, 4};
  float decoded[4];
  unsigned char coded[64];
  std::size_t bytes = 0;
  const auto message = [] { return std::string(sennit_last_error_message()); };

  EXPECT_EQ(sennit_tool_encode(nullptr, SENNIT_FLOAT32, values, 4, coded, 64, &bytes),
            SENNIT_INVALID_ARGUMENT);
  EXPECT_NE(message().find("codec is NULL"), std::string::npos);
  EXPECT_EQ(sennit_tool_encode("zip", SENNIT_FLOAT32, values, 4, coded, 64, &bytes),
            SENNIT_INVALID_ARGUMENT);
  EXPECT_NE(message().find("no codec 'zip'; there are: zfp:4"), std::string::npos);
  EXPECT_EQ(sennit_tool_encode("q8", SENNIT_INT32, values, 4, coded, 64, &bytes),
            SENNIT_UNSUPPORTED);
  EXPECT_EQ(
      sennit_tool_encode("q8", static_cast<sennit_dtype_t>(999), values, 4, coded, 64, &bytes),
      SENNIT_INVALID_ARGUMENT);
  EXPECT_EQ(sennit_tool_encode("q8", SENNIT_FLOAT32, values, 4, coded, 33, &bytes),
            SENNIT_INVALID_ARGUMENT);
  EXPECT_NE(message().find("room for 33 bytes, but 4 float32 may take 34"), std::string::npos);
  EXPECT_EQ(sennit_tool_encode("q8", SENNIT_FLOAT32, nullptr, 4, coded, 64, &bytes),
            SENNIT_INVALID_ARGUMENT);
  EXPECT_NE(message().find("values is NULL"), std::string::npos);
  EXPECT_EQ(sennit_tool_encode("q8", SENNIT_FLOAT32, values, 4, coded, 64, nullptr),
            SENNIT_INVALID_ARGUMENT);

  EXPECT_EQ(sennit_tool_decode("q8", SENNIT_FLOAT32, coded, 33, decoded, 4),
            SENNIT_INVALID_ARGUMENT);
  EXPECT_NE(message().find("take 34 bytes in q8, but 33 bytes are given"), std::string::npos);
  EXPECT_EQ(sennit_tool_decode("q8", SENNIT_FLOAT32, nullptr, 34, decoded, 4),
            SENNIT_INVALID_ARGUMENT);
  EXPECT_NE(message().find("coded is NULL"), std::string::npos);
  EXPECT_EQ(sennit_tool_decode("q8", SENNIT_FLOAT32, coded, 34, nullptr, 4),
            SENNIT_INVALID_ARGUMENT);
}

TEST(CodecTool, TheTableHasEachCodecWithItsTypes) {
  char* answer = nullptr;
  ASSERT_EQ(sennit_tool_codecs(nullptr, &answer), SENNIT_OK);
  const Json table = *parse_json(answer, "answer");
  sennit_tool_free(answer);
  ASSERT_EQ(table["codecs"].size(), 9u);
  for (const Json& codec : table["codecs"]) {
    for (const Json& row : codec["dtypes"]) {
      EXPECT_EQ(codec["lossless"] == true, row["bound"] == 0.0) << codec.dump();
      EXPECT_GT(row["block_bytes"], 0);
    }
  }
  EXPECT_EQ(table["codecs"][1]["name"], "zfp:8");
  EXPECT_EQ(table["codecs"][1]["dtypes"][2]["dtype"], "complex64");
  EXPECT_EQ(table["codecs"][1]["dtypes"][2]["streams"], 2);
}

}  // namespace
}  // namespace sennit
