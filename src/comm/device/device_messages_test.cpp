// Sends and recvs of ranks with fake GPUs: which go by copy engines, and that every byte arrives.
#include "comm/device/testing/fake_messages.hpp"
#include "exec/sm/testing/fake_pairs_kernel.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>

namespace sennit::tests {
namespace {

using ::testing::HasSubstr;

TEST_F(FakeMessages, TheFirstOutOfAnAllocationTakesKernelsAndMakesItKnown) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    const int fifos = rank.cuda->calls("import_memory");
    ring_and_meet(rank, out, in);
    EXPECT_EQ(rank.launches(), 1);
    for (int i = 0; i < 3; ++i) {
      ring(rank, out, in);
      rank.finish();
      ASSERT_TRUE(came_from(previous_of(rank, kRanks), in)) << "rank " << rank.rank;
    }
    EXPECT_EQ(rank.launches(), 1);
    EXPECT_EQ(rank.cuda->calls("import_memory") - fifos, 2) << "what comes and where it goes";
  });
}

TEST_F(FakeMessages, EveryPairInOneGroup) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank, kRanks);
    std::byte* const in = incoming(rank, kRanks);
    introduce(rank, out, in);
    const int before = rank.launches();
    for (int round = 0; round < 3; ++round) {
      ASSERT_TRUE(post(rank, every_pair(rank, out, in)).ok());
    }
    rank.finish();
    check_no_launches(rank, before);
    for (int peer = 0; peer < kRanks; ++peer) {
      ASSERT_TRUE(peer == rank.rank || came_from(peer, in + peer * kLarge, rank.rank))
          << "from " << peer << " to " << rank.rank;
    }
  });
}

TEST_F(FakeMessages, SeveralToOneRankKeepTheirOrderWhateverTheirSizes) {
  run([&](Rank& rank) {
    constexpr int kMessages = 5;
    std::byte* const out = outgoing(rank, kMessages);
    std::byte* const in = incoming(rank, kMessages);
    introduce(rank, out, in);
    const int before = rank.launches();
    Calls calls;
    for (int i = 0; i < kMessages; ++i) {
      const std::int64_t count = i % 2 == 1 ? kSmall : kLarge;
      calls.push_back(send(rank, next_of(rank, kRanks), out + i * kLarge, count));
      calls.push_back(recv(rank, previous_of(rank, kRanks), in + i * kLarge, count));
    }
    ASSERT_TRUE(post(rank, calls).ok());
    rank.finish();
    EXPECT_EQ(rank.launches(), before + 1);
    for (int i = 0; i < kMessages; i += 2) {
      ASSERT_TRUE(came_from(previous_of(rank, kRanks), in + i * kLarge, i)) << "message " << i;
    }
  });
}

// A sender hardly waits for its receiver on the host, so one thread may send first and another
// receive first.
TEST_F(FakeMessages, OneSendsFirstAndOneReceivesFirst) {
  for (const bool one_queue : {false, true}) {
    cuda_options_.one_queue = one_queue;
    run([&](Rank& rank) {
      std::byte* const out = outgoing(rank);
      std::byte* const in = incoming(rank);
      introduce(rank, out, in, "copy_engines");
      const int before = rank.launches();
      const int peer = rank.rank ^ 1;
      const Calls sends = requested({send(rank, peer, out)}, "copy_engines");
      const Calls recvs = requested({recv(rank, peer, in)}, "copy_engines");
      for (int round = 0; round < 10; ++round) {
        const bool sends_first = rank.rank % 2 == 0;
        ASSERT_TRUE(post(rank, sends_first ? sends : recvs).ok());
        ASSERT_TRUE(post(rank, sends_first ? recvs : sends).ok());
      }
      rank.finish();
      check_no_launches(rank, before);
      EXPECT_TRUE(came_from(peer, in));
    });
  }
}

TEST_F(FakeMessages, AGroupMaySpanStreams) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank, 2);
    std::byte* const in = incoming(rank, 2);
    introduce(rank, out, in);
    const int before = rank.launches();
    void* const other = take(rank.cuda->create_stream());
    for (int round = 0; round < 5; ++round) {
      Calls calls;
      for (int i = 0; i < 2; ++i) {
        calls.push_back(send(rank, next_of(rank, kRanks), out + i * kLarge));
        calls.push_back(recv(rank, previous_of(rank, kRanks), in + i * kLarge));
      }
      calls[2].stream = other;
      calls[3].stream = other;
      ASSERT_TRUE(post(rank, calls).ok());
    }
    rank.finish();
    EXPECT_TRUE(rank.cuda->synchronize(other).ok());
    check_no_launches(rank, before);
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(came_from(previous_of(rank, kRanks), in + i * kLarge, i));
    }
  });
}

// By request: what waits for one rank could hold up what comes from another.
TEST_F(FakeMessages, RunWhereAllStreamsShareOneQueue) {
  cuda_options_.one_queue = true;
  // They carry what is posted too late to be put and was not fetched before.
  prepare_ = [](Rank& rank) { rank.cuda->run_kernels(fake_pairs_kernel); };
  run([&](Rank& rank) {
    constexpr const char* kRequest = "copy_engines";
    std::byte* const out = outgoing(rank, kRanks);
    std::byte* const in = incoming(rank, kRanks);
    const int before = rank.cuda->calls("copy_async");
    for (const char* request : {"", "", kRequest}) {
      EXPECT_EQ(rank.cuda->calls("copy_async"), before);
      EXPECT_TRUE(post(rank, requested(every_pair(rank, out, in), request)).ok());
      rank.finish();
      meet();
    }
    const Calls around = {send(rank, next_of(rank, kRanks), out),
                          recv(rank, previous_of(rank, kRanks), in)};
    for (int round = 0; round < 5; ++round) {
      EXPECT_TRUE(post(rank, requested(around, kRequest)).ok());
      EXPECT_TRUE(post(rank, requested(every_pair(rank, out, in), kRequest)).ok());
    }
    EXPECT_TRUE(post(rank, requested(around, kRequest)).ok());
    rank.finish();
    EXPECT_TRUE(came_from(previous_of(rank, kRanks), in));
    EXPECT_GT(rank.cuda->calls("copy_async"), before);
  });
}

// More messages than there are words for, without a look at the host in between.
TEST_F(FakeMessages, MoreThanThereAreSlots) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    introduce(rank, out, in);
    const int before = rank.launches();
    for (int i = 0; i < 2 * stream::kMaxMessages + 3; ++i) {
      ASSERT_TRUE(post(rank,
                       requested({send(rank, next_of(rank, kRanks), out + i, kSmall),
                                  recv(rank, previous_of(rank, kRanks), in, kSmall)},
                                 "direct_get"))
                      .ok());
    }
    rank.finish();
    check_no_launches(rank, before);
    EXPECT_TRUE(
        holds(in, contents(previous_of(rank, kRanks), kSmall, 2 * stream::kMaxMessages + 2)));
  });
}

TEST_F(FakeMessages, AreCapturedAndReplayed) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    introduce(rank, out, in);
    const int before = rank.launches();
    rank.cuda->begin_capture(rank.stream);
    ring(rank, out, in);
    Calls crossing;
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer != rank.rank) {
        crossing.push_back(send(rank, peer, out));
        crossing.push_back(recv(rank, peer, in));
      }
    }
    ASSERT_TRUE(post(rank, crossing).ok());
    ring(rank, out, in);
    const FakeGraph graph = take(rank.cuda->end_capture(rank.stream));
    for (int i = 0; i < 5; ++i) {
      graph.launch(rank.stream);
    }
    rank.finish();
    ring(rank, out, in);  // after replays, with later words
    graph.launch(rank.stream);
    rank.finish();
    check_no_launches(rank, before);
    EXPECT_TRUE(came_from(previous_of(rank, kRanks), in));
  });
}

TEST_F(FakeMessages, NothingIsMappedWhileTheReceiverCaptures) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    const int imports = rank.cuda->calls("import_memory");
    rank.cuda->begin_capture(rank.stream);
    EXPECT_TRUE(post(rank, fetched(rank, out, in)).ok());
    (void)take(rank.cuda->end_capture(rank.stream));
    EXPECT_EQ(rank.cuda->calls("import_memory"), imports);
    EXPECT_EQ(rank.launches(), 1);
    fetch_and_meet(rank, out, in);  // now it is mapped
    fetch_and_meet(rank, out, in);
    EXPECT_EQ(rank.launches(), 2);
    EXPECT_TRUE(came_from(previous_of(rank, kRanks), in));
  });
}

TEST_F(FakeMessages, MemoryThatCannotBeReachedTakesKernels) {
  run([&](Rank& rank) {
    std::byte* out = outgoing(rank);
    std::byte* in = incoming(rank);
    if (rank.rank == 2 || rank.rank == 3) {
      (rank.rank == 2 ? out : in) =
          static_cast<std::byte*>(take(rank.cuda->allocate_private(kLarge)));
    }
    for (int i = 0; i < 3; ++i) {
      ring_and_meet(rank, out, in);
    }
    // Where neither end reaches the other's memory, both launch each time.
    EXPECT_EQ(rank.launches(), rank.rank == 2 || rank.rank == 3 ? 3 : 1);
  });
}

TEST_F(FakeMessages, MemoryThatIsNotWholePagesTakesKernelsUnlessEnginesAreRequested) {
  run([&](Rank& rank) {
    std::byte* const out = rank.allocate_as_said(3 * kLarge);
    std::memcpy(out, contents(rank.rank, kLarge).data(), kLarge);
    std::byte* const in = rank.allocate_as_said(3 * kLarge);
    introduce(rank, out, in);
    const int copies = rank.cuda->calls("copy_async");
    const int launches = rank.launches();
    ring_and_meet(rank, out, in);
    EXPECT_EQ(rank.cuda->calls("copy_async"), copies);
    EXPECT_EQ(rank.launches(), launches + 1);
    fetch_and_meet(rank, out, in);
    EXPECT_EQ(rank.cuda->calls("copy_async"), copies + 1);
    EXPECT_TRUE(came_from(previous_of(rank, kRanks), in));
  });
}

TEST_F(FakeMessages, AReceiverThatCouldNotMapTriesAgain) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    if (rank.rank == 1) {
      rank.cuda->fail("import_memory");
    }
    for (int i = 0; i < 4; ++i) {
      fetch_and_meet(rank, out, in);
    }
    EXPECT_EQ(rank.launches(), rank.rank == 0 || rank.rank == 1 ? 2 : 1);
    EXPECT_TRUE(came_from(previous_of(rank, kRanks), in));
  });
}

// While answers are on their way, each sender goes by what it knows and its receiver follows.
TEST_F(FakeMessages, AgreeHoweverLateTheAnswersCome) {
  run([&](Rank& rank) {
    std::mt19937 random(static_cast<unsigned>(rank.rank));
    for (int i = 0; i < 30; ++i) {
      std::byte* const out = outgoing(rank, 1, kSmall);
      std::byte* const in = incoming(rank, 1, kSmall);
      for (int messages = 0; messages < 3; ++messages) {
        const Calls calls = requested({send(rank, next_of(rank, kRanks), out, kSmall),
                                       recv(rank, previous_of(rank, kRanks), in, kSmall)},
                                      "direct_get");
        EXPECT_TRUE(post(rank, calls).ok());
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
      }
    }
    rank.finish();
    EXPECT_TRUE(rank.comm->failure().ok());
  });
}

// The case that a cache by address gets wrong.
TEST_F(FakeMessages, SeeThatABufferWasFreedAndAllocatedAgain) {
  run([&](Rank& rank) {
    std::byte* const in = incoming(rank);
    for (int i = 0; i < 4; ++i) {
      const int before = rank.cuda->left_over();
      std::byte* const out = outgoing(rank);
      for (int message = 0; message < 2; ++message) {
        fetch_and_meet(rank, out, in);
      }
      EXPECT_TRUE(came_from(previous_of(rank, kRanks), in));
      EXPECT_TRUE(rank.cuda->release(out).ok());
      // What was mapped of the last buffer is still there, of older ones nothing.
      EXPECT_LE(rank.cuda->left_over() - before, i == 0 ? 1 : 0);
    }
    EXPECT_EQ(rank.launches(), 4);
  });
}

TEST_F(FakeMessages, RanksThatAreThreadsNeedNoMapping) {
  options_.copy_engines = DeviceComm::Options::CopyUse::kOn;
  shared_cuda_ = std::make_shared<FakeCuda>(cuda_options_);
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    for (int round = 0; round < 3; ++round) {
      ring(rank, out, in);
    }
    rank.finish();
    EXPECT_TRUE(came_from(previous_of(rank, kRanks), in));
  });
  EXPECT_EQ(shared_cuda_->calls("launch"), 0);
  EXPECT_EQ(shared_cuda_->calls("import_memory"), 0);
}

TEST_F(FakeMessages, SmallOnesTakeKernels) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    introduce(rank, out, in);
    const int before = rank.launches();
    ASSERT_TRUE(post(rank,
                     {send(rank, next_of(rank, kRanks), out, kSmall),
                      recv(rank, previous_of(rank, kRanks), in, kSmall)})
                    .ok());
    EXPECT_EQ(rank.launches(), before + 1);
  });
}

TEST_F(FakeMessages, ToOneselfAloneIsACopyInTheStream) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    const int launches = rank.launches();
    const int copies = rank.cuda->calls("copy_async");
    ASSERT_TRUE(post(rank, {recv(rank, rank.rank, in), send(rank, rank.rank, out)}).ok());
    rank.finish();
    EXPECT_TRUE(came_from(rank.rank, in));
    EXPECT_EQ(rank.launches(), launches);
    EXPECT_EQ(rank.cuda->calls("copy_async"), copies + 1);
    ASSERT_TRUE(post(rank, {send(rank, rank.rank, out), recv(rank, rank.rank, out)}).ok());
    EXPECT_EQ(rank.cuda->calls("copy_async"), copies + 1) << "the buffers are one";
  });
}

// Where nothing is stored in place, a long one would go twice through memory.
TEST_F(FakeMessages, ToOneselfGoesWithTheOthersIfShort) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank, 2);
    for (const std::int64_t own : {kSmall, kLarge}) {
      const int launches = rank.launches();
      const int copies = rank.cuda->calls("copy_async");
      ASSERT_TRUE(post(rank,
                       requested({send(rank, next_of(rank, kRanks), out, kSmall),
                                  send(rank, rank.rank, out, own),
                                  recv(rank, previous_of(rank, kRanks), in, kSmall),
                                  recv(rank, rank.rank, in + kLarge, own)},
                                 "ll128"))
                      .ok());
      rank.finish();
      EXPECT_EQ(rank.launches(), launches + 1);
      EXPECT_EQ(rank.cuda->calls("copy_async"), copies + (own == kLarge ? 1 : 0));
    }
    EXPECT_TRUE(came_from(rank.rank, in + kLarge));
  });
}

TEST_F(FakeMessages, ToOneselfNeedsBothEndsInOneGroup) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    const auto why = [&](const Calls& calls) { return post(rank, calls).message(); };
    EXPECT_THAT(why({send(rank, rank.rank, out, kSmall)}), HasSubstr("has no recv in its group"));
    EXPECT_THAT(why({recv(rank, rank.rank, in, kSmall)}), HasSubstr("has no send in its group"));
    EXPECT_THAT(why({send(rank, rank.rank, out, kSmall), recv(rank, rank.rank, in, kSmall - 1)}),
                HasSubstr("to itself, but expects"));
    EXPECT_TRUE(rank.comm->failure().ok());
  });
}

TEST_F(FakeMessages, AnEngineCanBeRequested) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    introduce(rank, out, in);
    const int before = rank.launches();
    ASSERT_TRUE(post(rank,
                     requested({send(rank, next_of(rank, kRanks), out, kSmall),
                                recv(rank, previous_of(rank, kRanks), in, kSmall)},
                               "direct_get"))
                    .ok());
    rank.finish();
    check_no_launches(rank, before);
    EXPECT_TRUE(holds(in, contents(previous_of(rank, kRanks), kSmall)));
    ASSERT_TRUE(post(rank,
                     requested({send(rank, next_of(rank, kRanks), out),
                                recv(rank, previous_of(rank, kRanks), in)},
                               "ll128"))
                    .ok());
    EXPECT_EQ(rank.launches(), before + 1);
  });
}

TEST_F(FakeMessages, AGroupOfTooManyIsRefused) {
  run([&](Rank& rank) {
    std::byte* const memory = outgoing(rank);
    Calls calls;
    for (int i = 0; i < 65; ++i) {
      calls.push_back(send(rank, next_of(rank, kRanks), memory, kSmall));
    }
    const Status status = post(rank, calls);
    EXPECT_EQ(status.code(), Code::kUnsupported);
    EXPECT_NE(status.message().find("65 sends and recvs"), std::string::npos) << status.message();
    EXPECT_EQ(rank.launches(), 0);
  });
}

TEST_F(FakeMessages, GiveBackAllThatTheyTook) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    introduce(rank, out, in);
    ring(rank, out, in);
    rank.finish();
    expect_nothing_left(rank, {out, in});
  });
}

}  // namespace
}  // namespace sennit::tests
