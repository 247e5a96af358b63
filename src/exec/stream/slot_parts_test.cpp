#include "exec/stream/slot_parts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace sennit::stream {
namespace {

TEST(SlotParts, FillSlotsAndCoverEveryByte) {
  const host::RingShape ring{.slots = 4, .slot_bytes = std::size_t{4} << 20};
  for (const std::int64_t bytes : {0L, 1L, 4096L, 1L << 20, (5L << 20) + 1, 100L << 20}) {
    const SlotParts parts = cut_into_slots(bytes, ring);
    EXPECT_LE(parts.bytes, 4L << 20);
    EXPECT_GE(parts.count * parts.bytes, bytes);
    EXPECT_LT((parts.count - 1) * parts.bytes, std::max(1L, bytes));
  }
  EXPECT_EQ(cut_into_slots(5L << 20, ring).count, 4) << "copies in and out at once";
  EXPECT_EQ(cut_into_slots(1L << 20, ring).count, 1) << "too short for more";
}

}  // namespace
}  // namespace sennit::stream
