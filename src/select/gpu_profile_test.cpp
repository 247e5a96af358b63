#include "select/gpu_profile.hpp"

#include "select/built_in_profiles.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace sennit {
namespace {

std::string text_of_first() { return std::string(built_in_profiles().front().text); }

// The built-in text with a piece of it replaced.
std::string with(std::string_view piece, std::string_view other) {
  std::string text = text_of_first();
  const std::size_t at = text.find(piece);
  EXPECT_NE(at, std::string::npos) << piece;
  return text.replace(at, piece.size(), other);
}

std::string refusal(const std::string& text) {
  const Result<GpuProfile> profile = gpu_profile_from_text(text, "my.profile");
  return profile.ok() ? "not refused" : profile.status().message();
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(GpuProfiles, OfTheModelAreFoundByAWordOfItsName) {
  EXPECT_EQ(profile_for({.name = "NVIDIA H200", .compute_capability = 90}).name, "h200");
  EXPECT_TRUE(is_measured_on(gpu_profiles().front(), {.name = "NVIDIA H200 NVL"}));
}

TEST(GpuProfiles, OfAnUnknownModelAreTheNearestAndSaySo) {
  for (const int capability : {0, 70, 100}) {
    const GpuModel unknown{.name = "Some GPU", .compute_capability = capability};
    const GpuProfile& profile = profile_for(unknown);
    EXPECT_FALSE(profile.name.empty());
    EXPECT_FALSE(is_measured_on(profile, unknown));
  }
}

TEST(GpuProfiles, ThatAreBuiltInHaveRowsForEveryCollectiveOfPackets) {
  for (const GpuProfile& profile : gpu_profiles()) {
    EXPECT_EQ(profile.hash.size(), 16U);
    for (const Collective collective : {Collective::kAllReduce,
                                        Collective::kReduce,
                                        Collective::kBroadcast,
                                        Collective::kAllGather,
                                        Collective::kReduceScatter,
                                        Collective::kAllToAll,
                                        Collective::kSendRecv}) {
      EXPECT_TRUE(std::ranges::count(profile.packets, collective, &GpuProfile::Packets::collective))
          << profile.name << " " << name(collective);
    }
  }
}

TEST(GpuProfiles, OfAFileAreWhatItSays) {
  const auto profile =
      gpu_profile_from_text(with("size copy_engines 96M", "size copy_engines 3K"), "my.profile");
  ASSERT_TRUE(profile.ok()) << profile.status().message();
  EXPECT_EQ(profile->copies_from_bytes, 3 * 1024);
  const auto never =
      gpu_profile_from_text(with("size copy_engines 96M", "size copy_engines never"), "my.profile");
  ASSERT_TRUE(never.ok()) << never.status().message();
  EXPECT_EQ(never->copies_from_bytes, kNever);
  EXPECT_NE(profile->hash, gpu_profiles().front().hash);
}

TEST(GpuProfiles, ThatAreMalformedAreRefusedWithThePlace) {
  EXPECT_TRUE(refusal("").starts_with("my.profile:1:1: the file is empty"));
  EXPECT_TRUE(refusal("profile 2").starts_with("my.profile:1:9: "));
  EXPECT_TRUE(contains(refusal(with("size ll 128K", "")), "the file has no line 'size ll'"));
  EXPECT_TRUE(contains(refusal(with("size ll 128K", "size hop 1")), "stands here twice"));
  EXPECT_TRUE(contains(refusal(with("size ll 128K", "size lol 1")), "there is no size 'lol'"));
  EXPECT_TRUE(contains(refusal(with("size ll 128K", "size ll 9999999999G")), "no number of bytes"));
  EXPECT_TRUE(contains(refusal(with("name h200", "nome h200")), "'nome' is no kind of line"));
  EXPECT_TRUE(contains(refusal(with("gpus H200", "")), "lacks one of the lines"));
  EXPECT_TRUE(contains(refusal(with("algorithm one_shot", "algorithm no_shot")), "no_shot"));
  EXPECT_TRUE(contains(refusal(with("protocol slots", "protocol direct_put")),
                       "packets have protocols ll, ll128 and slots"));
  EXPECT_TRUE(contains(refusal(with("codec q8 ", "codec q9 ")), "no codec 'q9'"));
  EXPECT_TRUE(contains(refusal(with("percent 8", "percent 101")), "0..100"));
}

}  // namespace
}  // namespace sennit
