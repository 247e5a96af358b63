#include "comm/comm_config.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace sennit {
namespace {

Result<CommConfig> with_host_share(const char* value) {
  ::setenv("SENNIT_HOST_SHARE", value, 1);
  Result<CommConfig> config = CommConfig::from_environment();
  ::unsetenv("SENNIT_HOST_SHARE");
  return config;
}

TEST(CommConfig, HasAShareThatIsANumberOrFollowsTheLoad) {
  const CommConfig usual = *with_host_share("");
  EXPECT_EQ(usual.host_share, -1);
  EXPECT_FALSE(usual.dynamic_share);
  EXPECT_EQ(with_host_share("8")->host_share, 8);
  const CommConfig dynamic = *with_host_share("dynamic");
  EXPECT_EQ(dynamic.host_share, -1);
  EXPECT_TRUE(dynamic.dynamic_share);
  for (const char* const wrong : {"101", "-2", "Dynamic", "8 "}) {
    const Status status = with_host_share(wrong).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << wrong;
    EXPECT_TRUE(status.message().ends_with("a whole number from -1 to 100, or dynamic"))
        << status.message();
  }
}

// What the handshake compares.
TEST(CommConfig, TellsSettingsApartThatDifferInShares) {
  EXPECT_NE(with_host_share("dynamic")->settings("", "").find("\nhost_share=dynamic\n"),
            std::string::npos);
  EXPECT_NE(with_host_share("")->settings("", "").find("\nhost_share=-1\n"), std::string::npos);
}

}  // namespace
}  // namespace sennit
