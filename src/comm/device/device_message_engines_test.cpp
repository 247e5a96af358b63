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
#include <utility>

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

// Of each rank to each other, in groups of several messages or one.
class Crossing {
 public:
  static constexpr int kMessages = 3;
  static constexpr std::int64_t kCount = 20'001;

  Crossing(const Rank& rank, int ranks)
      : rank_(rank),
        ranks_(ranks),
        out_(outgoing(rank, kMessages * ranks, kCount)),
        in_(incoming(rank, kMessages * ranks, kCount)) {}

  void clear() const { std::memset(in_, 0, kMessages * kCount * static_cast<std::size_t>(ranks_)); }

  void add(int message, Calls& calls) const {
    for (int peer = 0; peer < ranks_; ++peer) {
      if (peer != rank_.rank) {
        calls.push_back(send(rank_, peer, at(out_, peer, message), kCount));
        calls.push_back(recv(rank_, peer, at(in_, peer, message), kCount));
      }
    }
  }

  void check(int message) const {
    for (int peer = 0; peer < ranks_; ++peer) {
      const std::int64_t from = (rank_.rank * kMessages + message) * kCount;
      EXPECT_TRUE(peer == rank_.rank || holds(at(in_, peer, message), contents(peer, kCount, from)))
          << "message " << message << " from " << peer << " to " << rank_.rank;
    }
  }

 private:
  static std::byte* at(std::byte* memory, int peer, int message) {
    return memory + (peer * kMessages + message) * kCount;
  }

  const Rank& rank_;
  int ranks_;
  std::byte* out_;
  std::byte* in_;
};

// Even ranks have all in one group, odd ones message by message.
TEST_F(MovedByEitherEnd, BringsEveryByteHoweverTheEndsMeet) {
  for (const bool one_queue : {false, true}) {
    cuda_options_.one_queue = one_queue;
    run([&](Rank& rank) {
      const Crossing crossing(rank, kRanks);
      std::mt19937 random(static_cast<unsigned>(rank.rank));
      for (int round = 0; round < 40; ++round) {
        crossing.clear();
        Calls calls;
        for (int message = 0; message < Crossing::kMessages; ++message) {
          crossing.add(message, calls);
          if (rank.rank % 2 == 1 || message + 1 == Crossing::kMessages) {
            ASSERT_TRUE(post(rank, wished(std::exchange(calls, {}), "copy_engines")).ok());
            nap(random);
          }
        }
        rank.finish();
        for (int message = 0; message < Crossing::kMessages; ++message) {
          crossing.check(message);
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
