// Sends and recvs by the copy engines of either end: who moves a message depends on whether the
// sender finds out in time where its receiver wants it.
#include "comm/device/testing/fake_messages.hpp"
#include "exec/sm/testing/fake_pairs_kernel.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <random>
#include <thread>
#include <utility>

namespace sennit::tests {
namespace {

class MovedByEitherEnd : public FakeMessages {
 protected:
  MovedByEitherEnd() {
    prepare_ = [](Rank& rank) { rank.cuda->run_kernels(fake_pairs_kernel); };
  }

  static void nap(std::mt19937& random) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
  }
  static int copies(const Rank& rank) { return rank.cuda->calls("copy_async"); }
};

TEST_F(MovedByEitherEnd, TheSenderPutsWhatItsReceiverHasPosted) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    introduce_well(rank, out, in);
    std::memset(in, 0, kLarge);
    const int before = copies(rank);
    put(rank, 0, 1, rank.rank == 0 ? out : in);
    rank.finish();
    EXPECT_EQ(copies(rank) - before, rank.rank == 0 ? 1 : 0);
    EXPECT_TRUE(rank.rank != 1 || came_from(0, in));
  });
}

TEST_F(MovedByEitherEnd, GraphsPutAsTheirCapturesDid) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    introduce_well(rank, out, in);
    const int before = copies(rank);
    rank.cuda->begin_capture(rank.stream);
    put(rank, 2, 3, rank.rank == 2 ? out : in);
    const FakeGraph graph = take(rank.cuda->end_capture(rank.stream));
    EXPECT_EQ(copies(rank) - before, rank.rank == 2 ? 1 : 0);
    for (int replay = 0; replay < 5; ++replay) {
      std::memset(in, 0, kLarge);
      meet();
      graph.launch(rank.stream);
      rank.finish();
      EXPECT_TRUE(rank.rank != 3 || came_from(2, in)) << "replay " << replay;
      put(rank, 2, 3, rank.rank == 2 ? out : in);  // between replays, with later words
      rank.finish();
    }
  });
}

TEST_F(MovedByEitherEnd, NobodyPutsWhatOneEndWantsFetched) {
  for (const bool is_senders_request : {false, true}) {
    run([&](Rank& rank) {
      std::byte* const out = outgoing(rank);
      std::byte* const in = incoming(rank);
      introduce_well(rank, out, in);
      const int before = copies(rank);
      for (int i = 0; i < 20; ++i) {
        Calls calls = {recv(rank, rank.rank - 1, in)};
        if (rank.rank % 2 == 0) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          calls = {send(rank, rank.rank + 1, out)};
        }
        const bool request = is_senders_request == (rank.rank % 2 == 0);
        ASSERT_TRUE(post(rank, requested(calls, request ? "direct_get" : "copy_engines")).ok());
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

  // All messages, in one group of every rank.
  [[nodiscard]] Calls all() const {
    Calls calls;
    for (int message = 0; message < kMessages; ++message) {
      add(message, calls);
    }
    return calls;
  }

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
      if (one_queue) {  // which a fake kernel keeps until it ends, unlike a real one
        ASSERT_TRUE(post(rank, requested(crossing.all(), "copy_engines")).ok());
        rank.finish();
        meet();
      }
      for (int round = 0; round < 40; ++round) {
        crossing.clear();
        Calls calls;
        for (int message = 0; message < Crossing::kMessages; ++message) {
          crossing.add(message, calls);
          if (rank.rank % 2 == 1 || message + 1 == Crossing::kMessages) {
            ASSERT_TRUE(post(rank, requested(std::exchange(calls, {}), "copy_engines")).ok());
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

// For rank 0 all groups here are of the same three ranks. But that of rank 2 begins when rank 1 has
// come to its second, and so has had from rank 0 what is in its first.
TEST_F(MovedByEitherEnd, GroupsThatHaveNotMetAreNotWaitedForAtOnce) {
  options_.deadline_s = 5;
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank, kRanks);
    introduce(rank, out, in);
    const auto exchange_with = [&](const std::vector<int>& peers) {
      Calls calls;
      for (const int peer : peers) {
        calls.push_back(send(rank, peer, out));
        calls.push_back(recv(rank, peer, in + peer * kLarge));
      }
      EXPECT_TRUE(post(rank, requested(calls, "direct_get")).ok());
    };
    if (rank.rank == 0) {
      exchange_with({1, 2});
    }
    if (rank.rank == 1) {
      exchange_with({0, 2});
      exchange_with({2});
      exchange_with({2});
    }
    if (rank.rank == 2) {
      exchange_with({1});
      exchange_with({1});
      exchange_with({0, 1});
    }
    rank.finish();
    EXPECT_TRUE(rank.comm->failure().ok()) << rank.comm->failure().message();
    for (int peer = 0; peer < 3 && rank.rank < 3; ++peer) {
      EXPECT_TRUE(peer == rank.rank || came_from(peer, in + peer * kLarge));
    }
  });
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

// A GPU that runs the kernels of its ranks in turn would spend a time slice on each that waits. The
// first message from a buffer goes by kernels, while its receiver maps it.
TEST_F(MovedByEitherEnd, RanksInTurnSendAllMessagesByCopies) {
  devices_ = {0, 0, 0, 0};
  run([&](Rank& rank) {
    const int previous = previous_of(rank, kRanks);
    for (const std::int64_t count : {std::int64_t{1}, kSmall, kLarge}) {
      std::byte* const out = outgoing(rank);
      std::byte* const in = incoming(rank);
      int launches = 0;
      for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(
            post(rank,
                 {send(rank, next_of(rank, kRanks), out, count), recv(rank, previous, in, count)})
                .ok());
        rank.finish();
        EXPECT_TRUE(holds(in, contents(previous, count)));
        meet();
        launches = i == 0 ? rank.launches() : launches;
        EXPECT_EQ(rank.launches(), launches) << count;
      }
    }
  });
}

}  // namespace
}  // namespace sennit::tests
