#include "exec/sm/small_call.hpp"

#include "algo/algorithm.hpp"
#include "exec/sm/direct_program.hpp"
#include "exec/sm/geometry.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <utility>

namespace sennit::sm {
namespace {

constexpr int kRanks = 4;

// The call of one rank, in memory of which nothing is read.
class Calls {
 public:
  Calls(Collective collective,
        std::string_view algorithm,
        std::int64_t bytes,
        int rank,
        bool on_host = false)
      : shape_{.ranks = kRanks} {
    const Schedule schedule =
        make_schedule(*find_algorithm(collective, algorithm).value(), {.ranks = kRanks}).value();
    call.input = buffer_.data();
    call.output = buffer_.data() + buffer_.size() / 2;
    for (std::size_t r = 0; r < kRanks; ++r) {
      call.fifos[r] = fifos_[r].data();
    }
    call.layout = shape_.layout(Packets::kLl);
    const DirectProgram program = compile_direct(schedule, rank).value();
    bind(program, bytes, 1, call);
    call.on_host = on_host;
    const Geometry geometry =
        geometry_for(longest_range(program.problem, bytes, 1), Packets::kLl, shape_, 32);
    call.blocks = geometry.blocks;
    call.warps = geometry.warps;
    call.depth = geometry.depth;
    call.rounds = geometry.rounds;
  }

  // Of phase 0, block 0 and warp 0, in generation 0.
  const std::byte* slot(int owner, int source) const {
    return call.fifos[static_cast<std::size_t>(owner)] + call.layout.area +
           static_cast<std::size_t>(source) * call.layout.source;
  }

  DirectCall call;
  SmallCall small;

 private:
  FifoShape shape_;
  alignas(16) std::array<std::byte, 1 << 12> buffer_{};
  std::array<std::array<std::byte, 16>, kRanks> fifos_{};
};

TEST(SmallCall, OfAnAllGatherHasEveryAddress) {
  Calls c(Collective::kAllGather, "direct", 160, 1);
  ASSERT_TRUE(make_small(c.call, c.small));
  EXPECT_EQ(c.small.length, 160);
  EXPECT_FALSE(c.small.is_apart);
  EXPECT_EQ(c.small.own_from, c.call.input);
  EXPECT_EQ(c.small.own_to, c.call.output + 160);
  ASSERT_EQ(c.small.pushes, 3);
  EXPECT_EQ(c.small.push[0].from, c.call.input);
  EXPECT_EQ(c.small.push[0].slot, c.slot(2, 1));
  EXPECT_EQ(c.small.push[2].slot, c.slot(0, 1));
  ASSERT_EQ(c.small.arrivals, 3);
  EXPECT_EQ(c.small.arrival[0].rank, 0);
  EXPECT_EQ(c.small.arrival[0].slot, c.slot(1, 0));
  EXPECT_EQ(c.small.arrival[0].to, c.call.output);
  EXPECT_EQ(c.small.arrival[2].to, c.call.output + 320);
  EXPECT_EQ(c.small.tells, 0);
  EXPECT_EQ(c.small.unheard, 0U);
}

TEST(SmallCall, OfAReductionTakesTheOwnPartInTheOrderOfRanks) {
  Calls c(Collective::kAllReduce, "one_shot", 8, 2);
  ASSERT_TRUE(make_small(c.call, c.small));
  EXPECT_TRUE(c.small.is_apart);
  ASSERT_EQ(c.small.arrivals, 4);
  EXPECT_EQ(c.small.arrival[1].slot, c.slot(2, 1));
  EXPECT_EQ(c.small.arrival[2].slot, nullptr);
  EXPECT_EQ(c.small.arrival[3].slot, c.slot(2, 3));
  EXPECT_EQ(c.small.own_to, c.call.output);
}

TEST(SmallCall, OfABroadcastTellsThoseWhoGetNoPacket) {
  Calls root(Collective::kBroadcast, "direct", 4096, 0);
  ASSERT_TRUE(make_small(root.call, root.small));
  EXPECT_EQ(root.small.pushes, 3);
  EXPECT_EQ(root.small.push_to, 0b1110U);
  EXPECT_EQ(root.small.unheard, 0b1110U);
  EXPECT_EQ(root.small.tells, 0);
  Calls leaf(Collective::kBroadcast, "direct", 4096, 3);
  ASSERT_TRUE(make_small(leaf.call, leaf.small));
  EXPECT_EQ(leaf.small.pushes, 0);
  EXPECT_EQ(leaf.small.arrivals, 1);
  EXPECT_EQ(leaf.small.tells, 3);
  EXPECT_EQ(leaf.small.unheard, 0b0110U);
}

TEST(SmallCall, ThroughTheHostWritesWhatAllGetOnce) {
  Calls gather(Collective::kAllGather, "direct", 160, 1, /*on_host=*/true);
  ASSERT_TRUE(make_small(gather.call, gather.small));
  EXPECT_EQ(gather.small.pushes, 1);
  EXPECT_EQ(gather.small.push[0].slot, gather.slot(1, 1));
  EXPECT_EQ(gather.small.push_to, 0b1101U);
  ASSERT_EQ(gather.small.arrivals, 3);
  EXPECT_EQ(gather.small.arrival[0].slot, gather.slot(0, 0));
  EXPECT_EQ(gather.small.arrival[2].slot, gather.slot(2, 2));
  Calls exchange(Collective::kAllToAll, "direct", 160, 1, /*on_host=*/true);
  ASSERT_TRUE(make_small(exchange.call, exchange.small));
  EXPECT_EQ(exchange.small.pushes, 3);
  EXPECT_EQ(exchange.small.push[0].slot, exchange.slot(2, 1));
}

// They have to agree where the packets lie.
TEST(SmallCall, ThroughTheHostIsOneOnAllRanksOrOnNone) {
  const std::pair<Collective, const char*> family[] = {{Collective::kAllReduce, "one_shot"},
                                                       {Collective::kAllGather, "direct"},
                                                       {Collective::kBroadcast, "direct"}};
  for (const auto& [collective, algorithm] : family) {
    for (const std::int64_t bytes : {1, 160, 5000, 40'000, 1 << 20}) {
      int small = 0;
      for (int rank = 0; rank < kRanks; ++rank) {
        Calls c(collective, algorithm, bytes, rank, /*on_host=*/true);
        ASSERT_TRUE(c.call.pushes_once);
        small += make_small(c.call, c.small) ? 1 : 0;
      }
      EXPECT_TRUE(small == 0 || small == kRanks) << name(collective) << " of " << bytes;
    }
  }
}

TEST(SmallCall, KnowsBlocksOfOddAddresses) {
  Calls odd(Collective::kAllGather, "direct", 160, 0);
  odd.call.input += 4;
  ASSERT_TRUE(make_small(odd.call, odd.small));
  EXPECT_TRUE(odd.small.is_apart);
  // 40 bytes for each of 4 ranks: theirs do not begin on 16-byte boundaries.
  Calls blocks(Collective::kAllToAll, "direct", 40, 0);
  ASSERT_TRUE(make_small(blocks.call, blocks.small));
  EXPECT_TRUE(blocks.small.is_apart);
}

TEST(SmallCall, IsNoneOfSeveralRoundsOrHops) {
  Calls large(Collective::kAllGather, "direct", 1 << 20, 0);
  EXPECT_FALSE(make_small(large.call, large.small));
  Calls hops(Collective::kAllReduce, "two_shot", 4096, 0);
  EXPECT_FALSE(make_small(hops.call, hops.small));
}

// A group of messages of so many bytes, of a chain each.
PairCalls group_of(int sends, int recvs, std::int64_t bytes) {
  const FifoShape shape{.ranks = 2, .one_way = true, .phases = 1, .ll_blocks = 16};
  PairCalls pairs;
  const auto add = [&](int count, bool are_sends) {
    PairLanes& way = are_sends ? pairs.sends : pairs.recvs;
    way.first = pairs.sends.chains;
    way.chains = count;
    for (int i = 0; i < count; ++i) {
      const int at = way.first + i;
      PairCall& call = pairs.messages[static_cast<std::size_t>(at)].call;
      call.packets = Packets::kLl;
      call.ranks = 2;
      call.rank = are_sends ? 0 : 1;
      call.push_to = are_sends ? 0b10 : 0;
      call.arrive_from[0] = are_sends ? 0 : 0b01;
      (are_sends ? call.push[1] : call.arrive[0][0]).length = bytes;
      apply(geometry_for(bytes, Packets::kLl, shape, 16), call);
      way.blocks = std::max(way.blocks, call.blocks);
      pairs.begin[static_cast<std::size_t>(at) + 1] = static_cast<std::int16_t>(at + 1);
    }
  };
  add(sends, true);
  add(recvs, false);
  return pairs;
}

constexpr std::int64_t kPacket = payload_bytes(Packets::kLl);

TEST(SmallPairs, HaveABlockEachWhereThereIsRoom) {
  SmallPairs small;
  ASSERT_TRUE(make_small(group_of(4, 4, 16 * kPacket), 132, small));
  EXPECT_EQ(small.blocks, 16);
  EXPECT_EQ(small.warps, 1);
  EXPECT_EQ(small.parts, 1);
  EXPECT_EQ(thread_blocks(small, 8), 128);
}

// Of the room that is theirs among ranks that share a GPU.
TEST(SmallPairs, ShareThreadBlocksWhereThereIsNot) {
  SmallPairs small;
  ASSERT_TRUE(make_small(group_of(4, 4, 16 * kPacket), 33, small));
  EXPECT_EQ(small.parts, 4);
  EXPECT_EQ(thread_blocks(small, 8), 32);
  ASSERT_TRUE(make_small(group_of(3, 2, 16 * kPacket), 33, small));
  EXPECT_EQ(small.parts, 3);
  EXPECT_EQ(thread_blocks(small, 5), 27);  // of 80 blocks
}

TEST(SmallPairs, AreNoneBeyondTheWarpsOfABlock) {
  SmallPairs small;
  EXPECT_TRUE(make_small(group_of(4, 4, 4 * 16 * kPacket), 33, small));
  EXPECT_EQ(small.warps * small.parts, kWarps);
  EXPECT_FALSE(make_small(group_of(4, 4, 5 * 16 * kPacket), 33, small));
  EXPECT_TRUE(make_small(group_of(4, 4, 5 * 16 * kPacket), 132, small));
}

TEST(SmallPairs, AreNoMoreThanAKernelTakes) {
  SmallPairs small;
  EXPECT_TRUE(make_small(group_of(kMaxSmallPairs, 0, 16), 132, small));
  EXPECT_FALSE(make_small(group_of(kMaxSmallPairs, 1, 16), 132, small));
  EXPECT_FALSE(make_small(group_of(1, 1, std::int64_t{1} << 20), 132, small));  // several rounds
}

}  // namespace
}  // namespace sennit::sm
