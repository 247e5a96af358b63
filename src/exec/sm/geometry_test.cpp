#include "exec/sm/geometry.hpp"

#include "memory/fifo.hpp"

#include <gtest/gtest.h>

namespace sennit::sm {
namespace {

TEST(LlFlags, TellARoundFromTheOneTwoBefore) {
  for (const std::uint64_t round :
       {std::uint64_t{3}, std::uint64_t{1} << 32, (std::uint64_t{7} << 32) + 1}) {
    const LlFlags now = ll_flags(round, 0xabcdef01U);
    for (const std::uint32_t other : {0xabcdef01U, 0xabcdef03U, 0xabcdef07U}) {
      const LlFlags before = ll_flags(round - 2, other);
      EXPECT_NE(now.even, before.even);
      EXPECT_NE(now.odd, before.odd);
    }
    EXPECT_NE(now.odd, ll_flags(round, 0xabcdef00U).odd);
    const LlFlags wrapped = ll_flags(round + (std::uint64_t{1} << 32), 0xabcdef01U);
    EXPECT_EQ(now.even, wrapped.even);
    EXPECT_NE(now.odd, wrapped.odd);
  }
}

TEST(Geometry, CoversEveryPacketWithinTheFifo) {
  const FifoShape shape{.ranks = 4, .plain_blocks = 24};
  for (const Packets packets : {Packets::kLl, Packets::kLl128, Packets::kPlain}) {
    for (const int limit : {1, 5, 33, 132}) {
      for (std::int64_t bytes = 0; bytes < (std::int64_t{1} << 31); bytes = bytes * 3 + 1) {
        const Geometry g = geometry_for(bytes, packets, shape, limit);
        EXPECT_LE(g.blocks, std::min(limit, shape.blocks(packets)));
        EXPECT_LE(g.warps, kWarps);
        EXPECT_LE(g.depth, shape.depth(packets));
        const std::int64_t a_round =
            std::int64_t{g.blocks} * g.warps * g.depth * payload_bytes(packets);
        EXPECT_GE(a_round * g.rounds, bytes) << bytes << " bytes on " << limit << " blocks";
        EXPECT_LT(a_round * (g.rounds - 1), std::max<std::int64_t>(1, bytes))
            << "the last round of " << bytes << " bytes is empty";
      }
    }
  }
}

TEST(FifoShape, PartsFollowEachOther) {
  const FifoShape shape{.ranks = 4, .ll_blocks = 4, .wide_blocks = 3, .plain_blocks = 5};
  const auto end = [&](Packets packets) {
    const FifoLayout at = shape.layout(packets);
    return std::size_t{at.area} + std::size_t{kGenerations} * at.generation;
  };
  EXPECT_EQ(end(Packets::kLl), shape.area_offset(Packets::kLl128));
  EXPECT_EQ(end(Packets::kLl128), shape.area_offset(Packets::kSlots));
  EXPECT_EQ(end(Packets::kSlots), shape.area_offset(Packets::kPlain));
  const FifoLayout plain = shape.layout(Packets::kPlain);
  EXPECT_EQ(end(Packets::kPlain), plain.words);
  EXPECT_EQ(plain.words_phase, 5 * kWordLineBytes);
  EXPECT_EQ(plain.words + kGenerations * plain.words_generation, plain.flags);
  EXPECT_EQ(plain.flags + kGenerations * plain.flags_generation, plain.started)
      << "what follows is for the other direction of a pair";
  EXPECT_EQ(plain.started + shape.started_bytes(), shape.bytes());
  EXPECT_EQ(shape.started_bytes(), 5 * kWordLineBytes) << "as many as have most";
}

TEST(Geometry, SmallCallsTakeOneBlock) {
  EXPECT_EQ(geometry_for(8, Packets::kLl, {.ranks = 4}, 132).blocks, 1);
  EXPECT_EQ(geometry_for(8, Packets::kLl, {.ranks = 4}, 132).warps, 1);
}

}  // namespace
}  // namespace sennit::sm
