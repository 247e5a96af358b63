#include "memory/message_put.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace sennit::sm {
namespace {

TEST(MessagePut, OffersBringTheirAddress) {
  const LlFlags flags = address_flags(7, 0x12345678);
  for (const std::uint64_t address : {0x0ULL, 0x7f12'3456'789a'bcd1ULL, 0xffff'ffff'0000'0000ULL}) {
    const std::uint64_t first = address_word(address, 0, flags);
    const std::uint64_t second = address_word(address, 1, flags);
    EXPECT_TRUE(is_address(first, 0, flags));
    EXPECT_TRUE(is_address(second, 1, flags));
    EXPECT_EQ(address_from(first, second), address);
  }
}

// Each word tells the message at hand from the one before, of whatever fingerprint, and from memory
// in which there has been none.
TEST(MessagePut, NoWordOfTheMessageBeforeIsTakenForOneOfThis) {
  for (const std::uint64_t number : {1ULL,
                                     2ULL,
                                     3ULL,
                                     0x7fff'ffffULL,
                                     0x8000'0000ULL,
                                     0x8000'0001ULL,
                                     0xffff'ffffULL,
                                     0x1'0000'0000ULL}) {
    for (const std::uint32_t fingerprint : {0U, 1U, 2U, 3U, 0xffff'fffeU, 0xffff'ffffU}) {
      for (const std::uint32_t before : {0U, 1U, 2U, 3U, 0xffff'fffeU, 0xffff'ffffU}) {
        const LlFlags flags = address_flags(number, fingerprint);
        for (int i = 0; i < kAddressWords; ++i) {
          const std::uint64_t old =
              number == 1 ? 0 : address_word(0x1234'5678, i, address_flags(number - 1, before));
          EXPECT_FALSE(is_address(old, i, flags)) << number << ", word " << i;
        }
        EXPECT_NE(done_word(number, fingerprint), done_word(number - 1, before));
      }
    }
  }
}

template <class T>
void expect_whole(std::uintptr_t from, std::int64_t bytes) {
  const Cut<T> cut(from, bytes);
  const auto elements = cut.elements * static_cast<std::int64_t>(sizeof(T));
  EXPECT_EQ(cut.head + elements + cut.tail, bytes);
  EXPECT_EQ(cut.tail_at(), bytes - cut.tail);
  EXPECT_LT(cut.head, static_cast<std::int64_t>(sizeof(T)));
  EXPECT_LT(cut.tail, static_cast<std::int64_t>(sizeof(T)));
  EXPECT_TRUE(cut.elements == 0 || (from + static_cast<std::uintptr_t>(cut.head)) % sizeof(T) == 0);
}

TEST(MessagePut, ACutLeavesNothingOut) {
  for (std::uintptr_t from = 4096; from < 4096 + 17; ++from) {
    for (std::int64_t bytes = 0; bytes < 70; ++bytes) {
      expect_whole<std::array<std::uint64_t, 2>>(from, bytes);
      expect_whole<std::uint32_t>(from, bytes);
      expect_whole<std::uint8_t>(from, bytes);
    }
  }
}

TEST(MessagePut, WordsOfAPairLieApart) {
  const MessageWords words{.blocks = 64};
  EXPECT_EQ(words.done() - words.addresses(), 128U);
  EXPECT_EQ(words.sent() - words.done(), 64U);
  EXPECT_EQ(words.received() - words.sent(), 64U);
  EXPECT_EQ(words.all() - words.received(), 64U);
}

}  // namespace
}  // namespace sennit::sm
