#include "schedule/problem.hpp"

#include <gtest/gtest.h>

#include <set>

namespace sennit {
namespace {

constexpr std::int64_t kCounts[] = {0, 1, 2, 31, 32, 33, 127, 128, 1000, 4096, 1'000'003};

Problem problem(Collective collective, int ranks, int root = 0, int cut = 1) {
  return {.collective = collective, .ranks = ranks, .root = root, .cut = cut};
}

TEST(BlockRange, BlocksOfACutVectorCoverEachElementOnceOnAlignedBoundaries) {
  for (int cut = 1; cut <= 17; ++cut) {
    for (const std::int64_t bytes : {1, 4, 8}) {
      for (const std::int64_t count : kCounts) {
        std::int64_t covered = 0;
        for (int index = 0; index < cut; ++index) {
          const ElementRange range =
              block_range(problem(Collective::kAllReduce, 4, 0, cut), count, bytes, index);
          ASSERT_EQ(range.begin, covered) << cut << " blocks of " << count << ", block " << index;
          ASSERT_GE(range.length, 0);
          if (range.length > 0) {
            ASSERT_EQ(range.begin * bytes % 128, 0);
          }
          covered += range.length;
        }
        ASSERT_EQ(covered, count);
      }
    }
  }
}

TEST(BlockRange, OnlyTheLastBlockThatIsNotEmptyIsShort) {
  const Problem cut = problem(Collective::kReduce, 4, 0, 4);
  // ceil(100 / 4) = 25 floats, rounded up to 32.
  EXPECT_EQ(block_range(cut, 100, 4, 0).length, 32);
  EXPECT_EQ(block_range(cut, 100, 4, 2).length, 32);
  EXPECT_EQ(block_range(cut, 100, 4, 3).length, 4);
  EXPECT_EQ(block_range(cut, 33, 4, 1).length, 1);
  EXPECT_EQ(block_range(cut, 33, 4, 2).length, 0);
}

TEST(BlockRange, APartOfEachRankStandsOneAfterTheOther) {
  const ElementRange range = block_range(problem(Collective::kAllGather, 4), 7, 4, 3);
  EXPECT_EQ(range.begin, 21);
  EXPECT_EQ(range.length, 7);
}

TEST(Problem, EveryOutputBlockExpectsInputBlocksThatExist) {
  for (const Collective collective : kCollectives) {
    for (int ranks = 2; ranks <= 5; ++ranks) {
      if (collective == Collective::kSendRecv && ranks != 2) {
        continue;
      }
      const Problem p = problem(collective, ranks, is_rooted(collective) ? ranks - 1 : 0, 3);
      for (int rank = 0; rank < ranks; ++rank) {
        for (int index = 0; index < p.output_blocks(rank); ++index) {
          const auto expected = p.expected(rank, index);
          EXPECT_EQ(expected.ranks.size(),
                    is_reduction(collective) ? static_cast<std::size_t>(ranks) : 1U);
          for (const int source : expected.ranks) {
            EXPECT_LT(expected.index, p.input_blocks(source)) << name(collective);
          }
        }
      }
    }
  }
}

TEST(Problem, InPlaceNoTwoOutputBlocksShareAnInputBlock) {
  for (const Collective collective : kCollectives) {
    const int ranks = collective == Collective::kSendRecv ? 2 : 4;
    const Problem p = problem(collective, ranks, is_rooted(collective) ? 2 : 0, 3);
    for (int rank = 0; rank < ranks; ++rank) {
      std::set<int> aliased;
      for (int index = 0; index < p.output_blocks(rank); ++index) {
        if (const auto input = p.aliased_input(rank, index)) {
          EXPECT_LT(*input, p.input_blocks(rank)) << name(collective);
          EXPECT_TRUE(aliased.insert(*input).second) << name(collective);
        }
      }
    }
  }
}

}  // namespace
}  // namespace sennit
