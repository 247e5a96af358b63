// Messages of the only two ranks: a part of large ones goes through host memory by itself.
#include "base/testing/trials.hpp"
#include "comm/device/testing/fake_messages.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sennit::tests {
namespace {

constexpr std::int64_t kBytes = std::int64_t{256} << 20;
constexpr std::int64_t kPlaces = 1'000'003;  // bytes between those that are looked at

class FakePair : public FakeMessagesWithRings {
 protected:
  FakePair() {
    ranks_ = 2;
    comm_config_.host_slot_bytes = std::size_t{1} << 20;
    comm_config_.host_ring_bytes = 4 * *comm_config_.host_slot_bytes;
  }
  void SetUp() override {
    if (kSanitized) {
      GTEST_SKIP() << "slow: copies gigabytes";
    }
  }

  // From rank 0 to rank 1.
  static Calls message(const Rank& rank, std::byte* memory) {
    return {rank.rank == 0 ? send(rank, 1, memory, kBytes) : recv(rank, 0, memory, kBytes)};
  }
  // After a few the rings are there, and each rank reaches the other's memory.
  void introduce_pair(const Rank& rank, std::byte* memory) {
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(post(rank, message(rank, memory)).ok());
      rank.finish();
      meet();
    }
  }
  // The next message, and how many copies this rank made of it. `is_late`: the receiver calls when
  // the sender has decided.
  int copies_of(const Rank& rank, std::byte* memory, int number, bool is_late) {
    for (std::int64_t at = 0; at < kBytes; at += kPlaces) {
      memory[at] = rank.rank == 0 ? content(at, number) : std::byte{0};
    }
    meet();
    if (rank.rank == 0 && !is_late) {
      await_post(rank, 1);
    }
    if (rank.rank == 1 && is_late) {
      meet();
    }
    const int before = rank.cuda->calls("copy_async");
    EXPECT_TRUE(post(rank, message(rank, memory)).ok());
    if (rank.rank == 0 && is_late) {
      meet();
    }
    rank.finish();
    const int copies = rank.cuda->calls("copy_async") - before;
    for (std::int64_t at = 0; at < kBytes; at += kPlaces) {
      EXPECT_EQ(memory[at], content(at, number)) << "byte " << at << " of message " << number;
    }
    meet();
    return copies;
  }
  static std::byte content(std::int64_t at, int number) {
    return static_cast<std::byte>((at * 7 + std::int64_t{31} * number + 1) & 0xff);
  }
};

// 6 percent are 16 parts and some; a trial may be of more or less, but not of most.
TEST_F(FakePair, SharesLargeMessagesThatArePut) {
  run([&](Rank& rank) {
    std::byte* const memory = rank.allocate(kBytes);
    introduce_pair(rank, memory);
    const int copies = copies_of(rank, memory, 1, /*is_late=*/false);
    EXPECT_GE(copies, 16);
    EXPECT_LE(copies, 25);
  });
}

TEST_F(FakePair, SharesNothingThatIsFetched) {
  run([&](Rank& rank) {
    std::byte* const memory = rank.allocate(kBytes);
    introduce_pair(rank, memory);
    EXPECT_EQ(copies_of(rank, memory, 1, /*is_late=*/true), rank.rank);
  });
}

TEST_F(FakePair, SharesNothingWhereMoreThanTwoAreThere) {
  ranks_ = 3;
  run([&](Rank& rank) {
    if (rank.rank == 2) {
      for (int i = 0; i < 5; ++i) {
        meet();
      }
      return;
    }
    std::byte* const memory = rank.allocate(kBytes);
    introduce_pair(rank, memory);
    EXPECT_EQ(copies_of(rank, memory, 1, /*is_late=*/false), 1 - rank.rank);
  });
}

TEST_F(FakePair, SharesNothingWhereTheSettingSaysSo) {
  options_.host_share = 0;
  run([&](Rank& rank) {
    std::byte* const memory = rank.allocate(kBytes);
    introduce_pair(rank, memory);
    EXPECT_EQ(copies_of(rank, memory, 1, /*is_late=*/false), 1 - rank.rank);
  });
}

TEST_F(FakePair, SharesNothingOfOneGpu) {
  devices_ = {0, 0, 2, 3};
  run([&](Rank& rank) {
    std::byte* const memory = rank.allocate(kBytes);
    introduce_pair(rank, memory);
    EXPECT_EQ(copies_of(rank, memory, 1, /*is_late=*/false), 1 - rank.rank);
  });
}

}  // namespace
}  // namespace sennit::tests
