#include "world/rendezvous/frame.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace sennit {
namespace {

Hello some_hello() {
  Hello hello;
  hello.rank = 2;
  hello.size = 5;
  hello.library_version = 100;
  hello.segment_bytes = std::uint64_t{1} << 40;
  hello.process = {1, 2, 3};
  hello.host = "node7";
  hello.settings = "slots=4\npaths=shm";
  return hello;
}

TEST(Frame, ComesBackAsItWas) {
  const KeyDigest key = digest_key("job");
  const auto frame = decode_frame(key, encode_frame(key, {FrameType::kReady, 7, "payload"}));
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->type, FrameType::kReady);
  EXPECT_EQ(frame->protocol, 7);
  EXPECT_EQ(frame->payload, "payload");
}

TEST(Frame, OfAnotherJobIsRefused) {
  const std::string bytes = encode_frame(digest_key("job"), {FrameType::kReady, 1, ""});
  EXPECT_FALSE(decode_frame(digest_key("jab"), bytes));
}

TEST(Frame, IsRefusedWithAnyBitFlippedAndAtAnyOtherLength) {
  const KeyDigest key = digest_key("job");
  const std::string whole = encode_frame(key, {FrameType::kHello, 1, encode_hello(some_hello())});
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(decode_frame(key, flipped)) << "bit " << bit;
  }
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(decode_frame(key, whole.substr(0, length))) << "length " << length;
  }
  EXPECT_FALSE(decode_frame(key, whole + '\0'));
}

TEST(Frame, HelloComesBackAsItWas) {
  const auto hello = decode_hello(encode_hello(some_hello()));
  ASSERT_TRUE(hello);
  EXPECT_EQ(encode_hello(*hello), encode_hello(some_hello()));
  EXPECT_EQ(hello->segment_bytes, std::uint64_t{1} << 40);
  EXPECT_EQ(hello->settings, "slots=4\npaths=shm");
}

TEST(Frame, HelloOfARankThatCannotBeIsRefused) {
  constexpr int kHuge = std::numeric_limits<int>::max();
  const struct {
    int rank;
    int size;
  } wrong[] = {{-1, 5}, {5, 5}, {0, 0}, {0, -1}, {kHuge, kHuge}, {0, kMaxRanks + 1}};
  for (const auto& each : wrong) {
    Hello hello = some_hello();
    hello.rank = each.rank;
    hello.size = each.size;
    EXPECT_FALSE(decode_hello(encode_hello(hello))) << each.rank << " of " << each.size;
  }
  Hello hello = some_hello();
  hello.settings.assign(kMaxSettingsBytes + 1, 'x');
  EXPECT_FALSE(decode_hello(encode_hello(hello)));
}

TEST(Frame, TheLongestHelloFits) {
  Hello hello = some_hello();
  hello.host.assign(kMaxHostNameBytes, 'h');
  hello.settings.assign(kMaxSettingsBytes, 's');
  EXPECT_LE(encode_hello(hello).size(), kMaxGuestPayload);
  EXPECT_TRUE(decode_hello(encode_hello(hello)));
}

TEST(Frame, TheLargestBatchOfMembersFits) {
  MemberBatch batch{kMaxRanks - kMaxFdsPerFrame, {}};
  batch.members.assign(kMaxFdsPerFrame, {Token{9}, std::string(kMaxHostNameBytes, 'h')});
  const std::string payload = encode_members(batch);
  EXPECT_LE(payload.size(), kMaxHostPayload);
  const auto decoded = decode_members(payload);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->first_rank, batch.first_rank);
  EXPECT_EQ(decoded->members.size(), batch.members.size());
  EXPECT_EQ(decoded->members.back().process, Token{9});
}

TEST(Frame, FailureKeepsItsFieldsAndAlwaysFits) {
  ErrorDetail detail;
  detail.blamed_ranks = {3, 5};
  detail.evidence = "two of five";
  detail.next = "look at them";
  const auto failure =
      decode_failure(encode_failure(Status(Code::kJoinTimeout, "ranks 3, 5 did not join", detail)));
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code(), Code::kJoinTimeout);
  EXPECT_EQ(failure->message(), "ranks 3, 5 did not join");
  EXPECT_EQ(failure->detail().blamed_ranks, detail.blamed_ranks);
  EXPECT_EQ(failure->detail().evidence, detail.evidence);
  EXPECT_EQ(failure->detail().next, detail.next);

  const std::string long_text(100'000, 'x');
  detail.evidence = detail.next = long_text;
  EXPECT_LE(encode_failure(Status(Code::kMismatch, long_text, detail)).size(), kMaxGuestPayload);
  detail.blamed_ranks.assign(kMaxRanks, 1);
  EXPECT_LE(encode_failure(Status(Code::kMismatch, long_text, detail)).size(), kMaxHostPayload);
}

TEST(Frame, FailureThatClaimsSuccessOrAnUnknownCodeIsRefused) {
  std::string payload = encode_failure(Status(Code::kMismatch, "no"));
  for (const char code : {'\x00', '\x0d', '\x7f'}) {
    payload[0] = code;
    EXPECT_FALSE(decode_failure(payload)) << int{code};
  }
}

TEST(Frame, PayloadsAreRefusedAtEveryOtherLength) {
  const struct {
    std::string payload;
    std::function<bool(std::string_view)> decodes;
  } cases[] = {
      {encode_hello(some_hello()), [](std::string_view text) { return !!decode_hello(text); }},
      {encode_members({0, {{Token{1}, "a"}, {Token{2}, "b"}}}),
       [](std::string_view text) { return !!decode_members(text); }},
      {encode_segment({Token{1}, 4096}),
       [](std::string_view text) { return !!decode_segment(text); }},
      {encode_failure(Status(Code::kMismatch, "no")),
       [](std::string_view text) { return !!decode_failure(text); }},
  };
  for (const auto& each : cases) {
    EXPECT_TRUE(each.decodes(each.payload));
    for (std::size_t length = 0; length < each.payload.size(); ++length) {
      EXPECT_FALSE(each.decodes(each.payload.substr(0, length))) << length;
    }
    EXPECT_FALSE(each.decodes(each.payload + '\0'));
  }
}

}  // namespace
}  // namespace sennit
