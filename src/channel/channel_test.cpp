#include "channel/channel.hpp"

#include <gtest/gtest.h>

#include <array>
#include <thread>

namespace sennit::channel {
namespace {

struct Ring {
  static constexpr std::uint32_t kSlots = 3;
  std::array<Word, kSlots> full;
  std::array<Word, kSlots> free;
  std::array<std::uint64_t, kSlots> data{};  // plain memory: the words alone order it
};

// Message passing and slot reuse: the thread sanitizer reports `data` if an order is missing.
TEST(Channel, DataArrivesInOrderThroughReusedSlots) {
  constexpr std::uint64_t kMessages = 20'000;
  // Starts below the wrap of the 32-bit sequence, so the run crosses it.
  constexpr std::uint64_t kFirst = (std::uint64_t{1} << 32) - kMessages / 2;
  Ring ring;
  for (std::uint64_t g = kFirst - Ring::kSlots; g < kFirst; ++g) {
    release_slot(ring.free[g % Ring::kSlots], g);
  }
  std::thread writer([&ring] {
    for (std::uint64_t g = kFirst; g < kFirst + kMessages; ++g) {
      while (!may_write(ring.free[g % Ring::kSlots], g, Ring::kSlots)) {
        std::this_thread::yield();
      }
      ring.data[g % Ring::kSlots] = g * 7;
      publish(ring.full[g % Ring::kSlots], g, 99);
    }
  });
  std::uint64_t wrong = 0;
  for (std::uint64_t g = kFirst; g < kFirst + kMessages; ++g) {
    while (!is_full(ring.full[g % Ring::kSlots], g, 99)) {
      std::this_thread::yield();
    }
    wrong += ring.data[g % Ring::kSlots] != g * 7 ? 1 : 0;
    release_slot(ring.free[g % Ring::kSlots], g);
  }
  writer.join();
  EXPECT_EQ(wrong, 0U);
}

TEST(Channel, AForeignCallIsSeenAndNeverTaken) {
  Word full;
  publish(full, 4, 1);
  EXPECT_TRUE(is_full(full, 4, 1));
  EXPECT_FALSE(is_full(full, 4, 2));
  EXPECT_TRUE(is_foreign(full, 4, 2));
  EXPECT_FALSE(is_foreign(full, 4, 1));
  EXPECT_FALSE(is_foreign(full, 5, 2));
}

TEST(Channel, ASlotIsFreeOnlyForTheMessageAfterTheConsumedOne) {
  Word free;
  EXPECT_TRUE(may_write(free, 1, 2));
  EXPECT_FALSE(may_write(free, 2, 2));
  release_slot(free, 0);
  EXPECT_TRUE(is_released(free, 0));
  EXPECT_TRUE(may_write(free, 2, 2));
  EXPECT_FALSE(may_write(free, 4, 2));
}

}  // namespace
}  // namespace sennit::channel
