// Sends and recvs by the copy engines of either end: who moves a message depends on whether the
// sender finds out in time where its receiver wants it.
#include "comm/device/fake_messages.hpp"
#include "comm/device/fake_pairs_kernel.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

namespace sennit::tests {
namespace {

class MovedByEitherEnd : public FakeMessages {
 protected:
  static constexpr int kMostTries = 2000;

  MovedByEitherEnd() {
    prepare_ = [](Rank& rank) { rank.cuda->run_kernels(fake_pairs_kernel); };
  }

  static void nap(std::mt19937& random) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
  }
  static int copies(const Rank& rank) { return rank.cuda->calls("copy_async"); }
};

TEST_F(MovedByEitherEnd, TheSenderPutsWhatItsReceiverHasPosted) {
  std::atomic<int> puts = 0;
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    introduce(rank, out, in);
    introduce(rank, out, in);
    const bool sends = rank.rank == 0;
    for (int i = 0; i < kMostTries && puts == 0; ++i) {
      const int before = copies(rank);
      if (sends) {
        // A receiver posts on its own, and then waits.
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ASSERT_TRUE(post(rank, {send(rank, 1, out)}).ok());
      } else if (rank.rank == 1) {
        std::memset(in, 0, kLarge);
        ASSERT_TRUE(post(rank, {recv(rank, 0, in)}).ok());
      }
      rank.finish();
      meet();
      if (sends) {
        puts += copies(rank) - before;
      }
      meet();
      if (rank.rank == 1) {
        EXPECT_TRUE(came_from(0, in));
        EXPECT_EQ(copies(rank) - before, puts == 0 ? 1 : 0) << "one end alone";
      }
    }
  });
  EXPECT_EQ(puts, 1);
}

TEST_F(MovedByEitherEnd, NobodyPutsWhatOneEndWantsFetched) {
  for (const bool is_senders_wish : {false, true}) {
    run([&](Rank& rank) {
      std::byte* const out = outgoing(rank);
      std::byte* const in = incoming(rank);
      introduce(rank, out, in);
      introduce(rank, out, in);
      const int before = copies(rank);
      for (int i = 0; i < 20; ++i) {
        Calls calls = {recv(rank, rank.rank - 1, in)};
        if (rank.rank % 2 == 0) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          calls = {send(rank, rank.rank + 1, out)};
        }
        const bool wishes = is_senders_wish == (rank.rank % 2 == 0);
        ASSERT_TRUE(post(rank, wished(calls, wishes ? "direct_get" : "copy_engines")).ok());
      }
      rank.finish();
      EXPECT_EQ(copies(rank) - before, rank.rank % 2 == 0 ? 0 : 20);
    });
  }
}

// In groups of several messages, to ranks that have theirs in other groups.
TEST_F(MovedByEitherEnd, BringsEveryByteHoweverTheEndsMeet) {
  for (const bool one_queue : {false, true}) {
    cuda_options_.one_queue = one_queue;
    run([&](Rank& rank) {
      constexpr int kMessages = 3;
      constexpr std::int64_t kCount = 20'001;
      std::byte* const out = outgoing(rank, kMessages * kRanks, kCount);
      std::byte* const in = incoming(rank, kMessages * kRanks, kCount);
      std::mt19937 random(static_cast<unsigned>(rank.rank));
      const auto at = [](std::byte* memory, int peer, int message) {
        return memory + (peer * kMessages + message) * kCount;
      };
      for (int round = 0; round < 40; ++round) {
        std::memset(in, 0, kMessages * kRanks * kCount);
        Calls calls;
        for (int message = 0; message < kMessages; ++message) {
          for (int peer = 0; peer < kRanks; ++peer) {
            if (peer != rank.rank) {
              calls.push_back(send(rank, peer, at(out, peer, message), kCount));
              calls.push_back(recv(rank, peer, at(in, peer, message), kCount));
            }
          }
          // Even ranks have all in one group, odd ones message by message.
          if (rank.rank % 2 == 1 || message + 1 == kMessages) {
            ASSERT_TRUE(post(rank, wished(std::exchange(calls, {}), "copy_engines")).ok());
            nap(random);
          }
        }
        rank.finish();
        for (int peer = 0; peer < kRanks; ++peer) {
          for (int message = 0; message < kMessages && peer != rank.rank; ++message) {
            ASSERT_TRUE(holds(at(in, peer, message),
                              contents(peer, kCount, (rank.rank * kMessages + message) * kCount)))
                << "message " << message << " from " << peer << " to " << rank.rank;
          }
        }
      }
    });
  }
}

TEST_F(MovedByEitherEnd, AReceiversBufferMayBeFreedAndAllocatedAgain) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::mt19937 random(static_cast<unsigned>(rank.rank));
    for (int i = 0; i < 6; ++i) {
      std::byte* const in = incoming(rank);
      for (int message = 0; message < 4; ++message) {
        std::memset(in, 0, kLarge);
        nap(random);
        ring_and_meet(rank, out, in);
        ASSERT_TRUE(came_from(previous_of(rank, kRanks), in)) << "buffer " << i;
      }
      meet();
      EXPECT_TRUE(rank.cuda->release(in).ok());
    }
  });
}

}  // namespace
}  // namespace sennit::tests
