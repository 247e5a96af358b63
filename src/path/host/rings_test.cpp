#include "path/host/rings.hpp"

#include <gtest/gtest.h>

namespace sennit::host {
namespace {

constexpr std::size_t kMega = std::size_t{1} << 20;

TEST(HostRings, HaveAsManySlotsAsTheirBytesHold) {
  EXPECT_EQ(RingShape::within(8 * kMega, 2 * kMega), (RingShape{4, 2 * kMega}));
  EXPECT_EQ(RingShape::within(7 * kMega, 2 * kMega), (RingShape{3, 2 * kMega}));
  EXPECT_EQ(RingShape::within(kMega * kMega, 4096).slots, kMaxSlots);
  EXPECT_EQ(RingShape::within(7 * kMega, 2 * kMega).bytes(), 6 * kMega);
  EXPECT_EQ(RingShape::within(kMega, 10000), (RingShape{kMaxSlots, 8192}));
}

TEST(HostRings, AreNoneWhereTwoSlotsDoNotFit) {
  EXPECT_EQ(RingShape::within(3 * kMega, 2 * kMega), RingShape());
  EXPECT_EQ(RingShape::within(0, 2 * kMega).bytes(), 0U);
  EXPECT_EQ(RingShape::within(8 * kMega, 0), RingShape());
}

TEST(HostRings, LieOneSlotBehindTheOther) {
  std::vector<std::byte> memory(1000);
  const Rings rings{.shape = {.slots = 4, .slot_bytes = 100},
                    .bases = {memory.data(), memory.data() + 400}};
  EXPECT_EQ(rings.slot(0, 3), memory.data() + 300);
  EXPECT_EQ(rings.slot(1, 1), memory.data() + 500);
}

}  // namespace
}  // namespace sennit::host
