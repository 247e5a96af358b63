#include "codec/codec_rules.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>

namespace sennit {
namespace {

CodecRules rules_of(std::string_view text) {
  const Result<CodecRules> rules = CodecRules::parse(text);
  EXPECT_TRUE(rules.ok()) << rules.status().message();
  return rules.ok() ? *rules : CodecRules();
}

TEST(CodecRules, TheFirstThatFitsCounts) {
  const CodecRules rules = rules_of("all_to_all>=1M=zfp:16,tp*/all_reduce=q8,all_to_all=mx8");
  EXPECT_EQ(rules.find("world", Collective::kAllToAll, 1 << 20), Codec::kZfp16);
  EXPECT_EQ(rules.find("world", Collective::kAllToAll, (1 << 20) - 1), Codec::kMx8);
  EXPECT_EQ(rules.find("tp0", Collective::kAllReduce, 8), Codec::kQ8);
  EXPECT_EQ(rules.find("world", Collective::kAllReduce, 8), std::nullopt);
  EXPECT_EQ(rules.find("world", Collective::kGather, 8), std::nullopt);
}

TEST(CodecRules, OneWithoutACollectiveIsForAllButBroadcast) {
  for (const std::string_view text : {"q8", "=q8"}) {
    const CodecRules rules = rules_of(text);
    for (const Collective collective : kCollectives) {
      const bool has_none =
          collective == Collective::kBroadcast || collective == Collective::kBarrier;
      EXPECT_EQ(rules.find("world", collective, 1) == std::nullopt, has_none) << name(collective);
    }
  }
  EXPECT_EQ(rules_of("broadcast=q8").find("world", Collective::kBroadcast, 0), Codec::kQ8);
}

TEST(CodecRules, NoneKeepsCallsFromLaterRules) {
  const CodecRules rules = rules_of("pp/=none,>=4K=q8");
  EXPECT_EQ(rules.find("pp", Collective::kAllGather, 1 << 20), std::nullopt);
  EXPECT_EQ(rules.find("ep", Collective::kAllGather, 4096), Codec::kQ8);
  EXPECT_EQ(rules.find("ep", Collective::kAllGather, 4095), std::nullopt);
}

TEST(CodecRules, TheEmptyTextHasNone) {
  EXPECT_TRUE(rules_of("").empty());
  EXPECT_FALSE(rules_of("none").empty());
}

TEST(CodecRules, RefusesWhatItDoesNotKnowByName) {
  const auto refused = [](std::string_view text, std::string_view why) {
    const Result<CodecRules> rules = CodecRules::parse(text);
    ASSERT_FALSE(rules.ok()) << text;
    EXPECT_EQ(rules.status().code(), Code::kInvalidArgument);
    EXPECT_NE(rules.status().message().find(why), std::string::npos) << rules.status().message();
  };
  refused("q9", "rule 'q9' for codecs: there is no codec 'q9'; there are: zfp:4");
  refused("q8,sort=q8", "rule 'sort=q8' for codecs: there is no collective 'sort'");
  refused("all_to_all>=1M", "there is no codec '1M'");
  refused("all_to_all>=many=q8", "the least size");
  refused("barrier=q8", "a barrier has no values to code");
  refused(",", "there is no codec ''");
}

}  // namespace
}  // namespace sennit
