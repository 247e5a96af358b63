#include "base/hmac.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sennit {
namespace {

std::string hex(const MacCode& code) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : code) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string code_of(const std::vector<std::uint8_t>& key, std::string_view message) {
  const std::array parts = {message.substr(0, message.size() / 3),
                            message.substr(message.size() / 3)};
  return hex(hmac_sha256(key, parts));
}

// RFC 4231, test cases 1, 2, 6 and 7.
TEST(Hmac, GivesTheCodesOfTheStandard) {
  EXPECT_EQ(code_of(std::vector<std::uint8_t>(20, 0x0b), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(code_of({'J', 'e', 'f', 'e'}, "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  const std::vector<std::uint8_t> long_key(131, 0xaa);
  EXPECT_EQ(code_of(long_key, "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(code_of(long_key,
                    "This is a test using a larger than block-size key and a larger than "
                    "block-size data. The key needs to be hashed before being used by the HMAC "
                    "algorithm."),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(Hmac, OnlyTheWholeCodeIsTheSame) {
  const std::vector<std::uint8_t> key(32, 7);
  const std::array parts = {std::string_view("text")};
  const MacCode code = hmac_sha256(key, parts);
  const std::string bytes(reinterpret_cast<const char*>(code.data()), code.size());
  EXPECT_TRUE(is_same_code(code, bytes));
  EXPECT_FALSE(is_same_code(code, bytes.substr(1)));
  for (std::size_t index = 0; index < bytes.size(); ++index) {
    std::string other = bytes;
    other[index] = static_cast<char>(other[index] ^ 1);
    EXPECT_FALSE(is_same_code(code, other)) << index;
  }
}

}  // namespace
}  // namespace sennit
