// Messages between two ranks that few thread blocks store, as the profile says.
#include "comm/device/testing/offering_gpus.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace sennit::tests {
namespace {

constexpr std::int64_t kLong = (std::int64_t{2} << 20) + 5;
constexpr std::int64_t kFrom = 200'000;

class FewBlocks : public OfferingGpus {
 protected:
  static constexpr unsigned kFew = 3;

  FewBlocks() {
    ranks_ = 2;
    options_.profile->few_blocks_from_bytes = kFrom;
    options_.profile->few_blocks = static_cast<int>(kFew);
  }

  void exchange(const Rank& rank, std::byte* out, std::byte* in, std::int64_t count) {
    const int other = 1 - rank.rank;
    const Calls calls = {send(rank, other, out, count), recv(rank, other, in, count)};
    ASSERT_TRUE(post(rank, requested(calls, "direct_put")).ok());
    rank.finish();
    meet();
  }
  static unsigned launched(const Rank& rank) { return rank.cuda->last_shape().blocks; }
};

TEST_F(FewBlocks, CarryMessagesFromTheirSizeOn) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank, 1, kLong);
    std::byte* const in = incoming(rank, 1, kLong);
    exchange(rank, out, in, kLong);
    EXPECT_EQ(launched(rank), 2 * kFew) << "packets, too";
    exchange(rank, out, in, kLong);
    std::memset(in, 0xa5, kLong);
    exchange(rank, out, in, kLong);
    EXPECT_EQ(launched(rank), kFew + 1) << "and one that waits";
    EXPECT_TRUE(holds(in, contents(1 - rank.rank, kLong)));
    exchange(rank, out, in, kFrom - 1);
    EXPECT_GT(launched(rank), kFew + 1);
  });
}

// With the block that stays, and a thread block that waits for each.
TEST_F(FewBlocks, CarryCollectives) {
  run([&](Rank& rank) {
    Operation op;
    op.collective = Collective::kAllGather;
    op.send = outgoing(rank, 1, kLong);
    op.recv = incoming(rank, 2, kLong);
    op.count = kLong;
    op.request.protocol = "direct_put";
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(rank.call(op).ok());
      rank.finish();
      meet();
    }
    EXPECT_EQ(launched(rank), 2 * (kFew + 1));
    for (const int source : {0, 1}) {
      const auto* const block = static_cast<const std::byte*>(op.recv) + source * kLong;
      EXPECT_TRUE(holds(block, contents(source, kLong)));
    }
  });
}

}  // namespace
}  // namespace sennit::tests
