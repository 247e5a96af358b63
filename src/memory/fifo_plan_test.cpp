#include "memory/fifo_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace sennit {
namespace {

constexpr std::size_t kMega = std::size_t{1} << 20;

// Nothing of one pair of ranks lies in what another pair uses.
TEST(FifoPlan, PartsDoNotOverlap) {
  for (const FifoPlace place : {FifoPlace::kDevice, FifoPlace::kHost}) {
    for (const int ranks : {1, 2, 3, 8, 16}) {
      for (const int blocks : {1, 2, 5, 7, 20, 66, 128}) {
        const FifoPlan plan = FifoPlan::make(place, ranks, blocks);
        EXPECT_GE(plan.pair_offset(0), plan.shape.bytes());
        EXPECT_EQ(plan.pair_offset(0) % sm::kPacketBytes, 0U) << "a line of Ll128 is one in memory";
        // Packets of one direction, and the words of the other behind them.
        const std::size_t a_pair = plan.pair_shape.bytes() + plan.pair_shape.started_bytes();
        for (int peer = 1; peer < ranks; ++peer) {
          EXPECT_GE(plan.pair_offset(peer), plan.pair_offset(peer - 1) + a_pair);
          EXPECT_EQ(plan.pair_offset(peer) % sm::kPacketBytes, 0U);
        }
        EXPECT_GE(plan.staging_offset(0), plan.pair_offset(ranks - 1) + a_pair);
        EXPECT_EQ(plan.staging_offset(0) % 128, 0U);
        EXPECT_EQ(plan.staging.bytes() % 128, 0U);
        EXPECT_GE(plan.bytes(), plan.staging_offset(ranks - 1) + plan.staging.bytes());
        EXPECT_EQ(plan.bytes() % 4096, 0U);
      }
    }
  }
}

// What SENNIT_DEVICE_BLOCKS allows, a send and a recv share.
TEST(FifoPlan, MessagesHaveHalfOfTheBlocks) {
  const FifoPlan plan = FifoPlan::make(FifoPlace::kDevice, 4, 8);
  EXPECT_EQ(plan.shape.blocks(sm::Packets::kSlots), 8);
  for (const sm::Packets packets : {sm::Packets::kLl, sm::Packets::kLl128, sm::Packets::kSlots}) {
    EXPECT_EQ(plan.pair_shape.blocks(packets), 4);
  }
}

// Blocks that never run need no slots; the others have those that they would have alone.
TEST(FifoPlan, RanksThatShareAGpuHaveSlotsForTheBlocksThatRun) {
  for (const int ranks : {2, 4, 8, 16}) {
    const int resident = 132 / ranks;
    const FifoPlan alone = FifoPlan::make(FifoPlace::kDevice, ranks, 128);
    const FifoPlan shared = FifoPlan::make(FifoPlace::kDevice, ranks, 128, resident);
    for (const sm::Packets packets : {sm::Packets::kLl, sm::Packets::kLl128, sm::Packets::kSlots}) {
      EXPECT_EQ(shared.shape.depth(packets), alone.shape.depth(packets));
      EXPECT_EQ(shared.shape.blocks(packets), std::min(alone.shape.blocks(packets), resident));
      EXPECT_EQ(shared.pair_shape.blocks(packets),
                std::min(alone.pair_shape.blocks(packets), resident));
    }
    EXPECT_EQ(shared.put_blocks, alone.put_blocks);
    EXPECT_LE(shared.bytes() * static_cast<std::size_t>(ranks), 1300 * kMega);
  }
}

TEST(FifoPlan, HostMemoryHoldsNoLl128AndLittleOfTheRest) {
  for (const int ranks : {1, 2, 4, 8, 9, 16}) {
    const FifoPlan plan = FifoPlan::make(FifoPlace::kHost, ranks, 128);
    EXPECT_EQ(plan.shape.blocks(sm::Packets::kLl128), 0);
    EXPECT_EQ(plan.pair_shape.blocks(sm::Packets::kLl128), 0);
    for (const sm::Packets packets : {sm::Packets::kLl, sm::Packets::kPlain}) {
      EXPECT_GT(plan.shape.blocks(packets), 0);
      EXPECT_GT(plan.pair_shape.blocks(packets), 0);
    }
    EXPECT_EQ(FifoPlan::make(FifoPlace::kDevice, ranks, 128).shape.blocks(sm::Packets::kPlain), 0);
    EXPECT_LE(plan.bytes() * static_cast<std::size_t>(ranks), 322 * kMega);
  }
  for (const sm::Packets packets : {sm::Packets::kLl, sm::Packets::kPlain}) {
    EXPECT_EQ(FifoPlan::make(FifoPlace::kHost, 4, 2).shape.blocks(packets), 2);
  }
  EXPECT_GT(FifoPlan::make(FifoPlace::kDevice, 4, 128).shape.blocks(sm::Packets::kLl128), 0);
}

TEST(FifoPlan, StagingBuffersOfGpusThatReachEachOtherAreLarger) {
  for (const int ranks : {2, 4, 8, 16}) {
    const FifoPlan plan = FifoPlan::make(FifoPlace::kHost, ranks, 128);
    EXPECT_EQ(plan.peer_staging.blocks, plan.staging.blocks) << "a block meets its like in both";
    EXPECT_GE(plan.peer_staging.slot_bytes, 2 * plan.staging.slot_bytes);
  }
}

// What a wire to the host has under way while a tile of a hierarchical schedule goes through all of
// its steps, and what is pinned for it.
TEST(FifoPlan, StagingBuffersOfFewRanksHoldAMegabyteUnderWay) {
  for (const int ranks : {2, 3, 4}) {
    const FifoPlan plan = FifoPlan::make(FifoPlace::kHost, ranks, 128);
    constexpr std::size_t kSlots = 2;
    EXPECT_GE(static_cast<std::size_t>(plan.staging.blocks) * plan.staging.slot_bytes / kSlots,
              kMega);
    EXPECT_LE(plan.bytes(), 20 * kMega);
  }
}

}  // namespace
}  // namespace sennit
