// Sends and recvs of ranks with fake GPUs: which go by copy engines, and that every byte arrives.
#include "comm/device/fake_gpus.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace sennit::tests {
namespace {

using Calls = std::vector<DeviceComm::Call>;

// Just large enough for copy engines, and one that is not.
constexpr std::int64_t kLarge = (std::int64_t{4} << 20) + 5;
constexpr std::int64_t kSmall = 1000;

Operation message(int peer, bool is_send, std::byte* memory, std::int64_t count) {
  Operation op;
  op.collective = Collective::kSendRecv;
  op.peer = peer;
  op.is_send = is_send;
  op.send = is_send ? memory : nullptr;
  op.recv = is_send ? nullptr : memory;
  op.count = count;
  return op;
}

DeviceComm::Call send(const Rank& rank, int peer, std::byte* memory, std::int64_t count = kLarge) {
  return {message(peer, true, memory, count), rank.stream};
}

DeviceComm::Call recv(const Rank& rank, int peer, std::byte* memory, std::int64_t count = kLarge) {
  return {message(peer, false, memory, count), rank.stream};
}

Calls wished(Calls calls, const std::string& protocol) {
  for (DeviceComm::Call& call : calls) {
    call.operation.wishes.protocol = protocol;
  }
  return calls;
}

Status post(const Rank& rank, const Calls& calls) { return rank.comm->enqueue(calls); }

// Memory of a rank for `messages` messages, and what it holds: bytes that name rank and place.
std::byte* outgoing(const Rank& rank, int messages = 1, std::int64_t count = kLarge) {
  std::byte* const memory = rank.allocate(count * messages);
  const Bytes bytes = contents(rank.rank, count * messages);
  std::memcpy(memory, bytes.data(), bytes.size());
  return memory;
}

std::byte* incoming(const Rank& rank, int messages = 1, std::int64_t count = kLarge) {
  std::byte* const memory = rank.allocate(count * messages);
  std::memset(memory, 0xa5, static_cast<std::size_t>(count * messages));
  return memory;
}

// Message `index` of `sender`, as outgoing() made it.
bool came_from(int sender, const std::byte* memory, int index = 0) {
  return holds(memory, contents(sender, kLarge, index * kLarge));
}

int next_of(const Rank& rank, int ranks) { return (rank.rank + 1) % ranks; }
int previous_of(const Rank& rank, int ranks) { return (rank.rank + ranks - 1) % ranks; }

class FakeMessages : public FakeGpus {
 protected:
  // After this each rank reaches what its peers send out of the memory.
  void introduce(const Rank& rank, std::byte* out, std::byte* in) {
    Calls calls;
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer != rank.rank) {
        calls.push_back(send(rank, peer, out));
        calls.push_back(recv(rank, peer, in));
      }
    }
    EXPECT_TRUE(post(rank, calls).ok());
    rank.finish();
    meet();  // all have answered
  }

  static void ring(const Rank& rank, std::byte* out, std::byte* in) {
    const Calls calls = {send(rank, next_of(rank, kRanks), out),
                         recv(rank, previous_of(rank, kRanks), in)};
    EXPECT_TRUE(post(rank, calls).ok());
  }

  // Also waits until the sender can know whether its receiver reaches the memory.
  void ring_and_meet(const Rank& rank, std::byte* out, std::byte* in) {
    ring(rank, out, in);
    rank.finish();
    meet();
  }

  static void check_no_launches(const Rank& rank, int before) {
    EXPECT_EQ(rank.launches(), before) << "rank " << rank.rank;
  }
};

TEST_F(FakeMessages, TheFirstOutOfAnAllocationTakesKernelsAndMakesItKnown) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    const int arenas = rank.cuda->calls("import_memory");
    ring_and_meet(rank, out, in);
    EXPECT_EQ(rank.launches(), 1);
    for (int i = 0; i < 3; ++i) {
      ring(rank, out, in);
      rank.finish();
      ASSERT_TRUE(came_from(previous_of(rank, kRanks), in)) << "rank " << rank.rank;
    }
    EXPECT_EQ(rank.launches(), 1);
    EXPECT_EQ(rank.cuda->calls("import_memory") - arenas, 1);
  });
}

TEST_F(FakeMessages, EveryPairInOneGroup) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank, kRanks);
    std::byte* const in = incoming(rank, kRanks);
    introduce(rank, out, in);
    const int before = rank.launches();
    for (int round = 0; round < 3; ++round) {
      Calls calls;
      for (int peer = 0; peer < kRanks; ++peer) {
        if (peer != rank.rank) {
          calls.push_back(recv(rank, peer, in + peer * kLarge));
          calls.push_back(send(rank, peer, out + peer * kLarge));
        }
      }
      ASSERT_TRUE(post(rank, calls).ok());
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

// A sender does not wait for its receiver on the host, so one thread may send first and another
// receive first.
TEST_F(FakeMessages, OneSendsFirstAndOneReceivesFirst) {
  for (const bool one_queue : {false, true}) {
    cuda_options_.one_queue = one_queue;
    run([&](Rank& rank) {
      std::byte* const out = outgoing(rank);
      std::byte* const in = incoming(rank);
      introduce(rank, out, in);
      const int before = rank.launches();
      const int peer = rank.rank ^ 1;
      const Calls sends = {send(rank, peer, out)};
      const Calls recvs = {recv(rank, peer, in)};
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

TEST_F(FakeMessages, RunWhereAllStreamsShareOneQueue) {
  cuda_options_.one_queue = true;
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank, kRanks);
    std::byte* const in = incoming(rank, kRanks);
    introduce(rank, out, in);
    for (int round = 0; round < 5; ++round) {
      ring(rank, out, in);
      introduce(rank, out, in);
    }
    ring(rank, out, in);
    rank.finish();
    EXPECT_TRUE(came_from(previous_of(rank, kRanks), in));
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
                       wished({send(rank, next_of(rank, kRanks), out + i, kSmall),
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
    ring(rank, out, in);
    (void)take(rank.cuda->end_capture(rank.stream));
    EXPECT_EQ(rank.cuda->calls("import_memory"), imports);
    EXPECT_EQ(rank.launches(), 1);
    ring_and_meet(rank, out, in);  // now it is mapped
    ring(rank, out, in);
    rank.finish();
    EXPECT_EQ(rank.launches(), 2);
    EXPECT_TRUE(came_from(previous_of(rank, kRanks), in));
  });
}

TEST_F(FakeMessages, MemoryThatCannotBeReachedTakesKernels) {
  run([&](Rank& rank) {
    std::byte* out = outgoing(rank);
    std::byte* const in = incoming(rank);
    if (rank.rank == 2) {
      out = static_cast<std::byte*>(take(rank.cuda->allocate_private(kLarge)));
    }
    for (int i = 0; i < 3; ++i) {
      ring_and_meet(rank, out, in);
    }
    // Who sends to or receives from memory that cannot be reached launches each time.
    EXPECT_EQ(rank.launches(), rank.rank == 2 || rank.rank == 3 ? 3 : 1);
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
      ring_and_meet(rank, out, in);
    }
    EXPECT_EQ(rank.launches(), rank.rank == 0 || rank.rank == 1 ? 2 : 1);
    EXPECT_TRUE(came_from(previous_of(rank, kRanks), in));
  });
}

// The case that a cache by address gets wrong.
// While answers are on their way, each sender goes by what it knows and its receiver follows.
TEST_F(FakeMessages, AgreeHoweverLateTheAnswersCome) {
  run([&](Rank& rank) {
    std::mt19937 random(static_cast<unsigned>(rank.rank));
    for (int i = 0; i < 30; ++i) {
      std::byte* const out = outgoing(rank, 1, kSmall);
      std::byte* const in = incoming(rank, 1, kSmall);
      for (int messages = 0; messages < 3; ++messages) {
        const Calls calls = wished({send(rank, next_of(rank, kRanks), out, kSmall),
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

TEST_F(FakeMessages, SeeThatABufferWasFreedAndAllocatedAgain) {
  run([&](Rank& rank) {
    std::byte* const in = incoming(rank);
    for (int i = 0; i < 4; ++i) {
      const int before = rank.cuda->left_over();
      std::byte* const out = outgoing(rank);
      ring_and_meet(rank, out, in);
      ring_and_meet(rank, out, in);
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

TEST_F(FakeMessages, SmallOnesAndThoseToOneselfTakeKernels) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    introduce(rank, out, in);
    const int before = rank.launches();
    ASSERT_TRUE(post(rank, {send(rank, rank.rank, out), recv(rank, rank.rank, in)}).ok());
    EXPECT_EQ(rank.launches(), before + 1);
    ASSERT_TRUE(post(rank,
                     {send(rank, next_of(rank, kRanks), out, kSmall),
                      recv(rank, previous_of(rank, kRanks), in, kSmall)})
                    .ok());
    EXPECT_EQ(rank.launches(), before + 2);
  });
}

TEST_F(FakeMessages, AnEngineCanBeWishedFor) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    introduce(rank, out, in);
    const int before = rank.launches();
    ASSERT_TRUE(post(rank,
                     wished({send(rank, next_of(rank, kRanks), out, kSmall),
                             recv(rank, previous_of(rank, kRanks), in, kSmall)},
                            "direct_get"))
                    .ok());
    rank.finish();
    check_no_launches(rank, before);
    EXPECT_TRUE(holds(in, contents(previous_of(rank, kRanks), kSmall)));
    ASSERT_TRUE(post(rank,
                     wished({send(rank, next_of(rank, kRanks), out),
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

// Ends of different sizes, of the same engine or of two.
class FakeMismatches : public FakeMessages, public ::testing::WithParamInterface<std::int64_t> {};

TEST_P(FakeMismatches, AreNamedByBothEndsWithinASecond) {
  run([&](Rank& rank) {
    if (rank.rank > 1) {
      return;
    }
    std::byte* const memory = outgoing(rank, 2);
    const Calls calls = {rank.rank == 0 ? send(rank, 1, memory, GetParam())
                                        : recv(rank, 0, memory, kLarge)};
    const Status posted = post(rank, calls);
    EXPECT_EQ(posted.ok(), rank.rank == 0) << posted.message();
    const Status status = failure_within_a_second(rank);
    EXPECT_EQ(status.code(), Code::kMismatch) << status.message();
    EXPECT_EQ(status.detail().blamed_ranks, (std::vector{0, 1}));
    EXPECT_NE(status.message().find(fmt::format("send_recv of {} x uint8", GetParam())),
              std::string::npos)
        << status.message();
    EXPECT_NE(status.message().find(fmt::format("send_recv of {} x uint8", kLarge)),
              std::string::npos)
        << status.message();
    rank.finish();
  });
}

INSTANTIATE_TEST_SUITE_P(Counts, FakeMismatches, ::testing::Values(0, kSmall, kLarge + 1));

TEST_F(FakeMessages, ASenderThatNeverCallsIsNamedAtTheDeadline) {
  options_.deadline_s = 0.2;
  run([&](Rank& rank) {
    if (rank.rank != 1) {
      return;
    }
    const Status status = post(rank, {recv(rank, 3, incoming(rank))});
    EXPECT_EQ(status.code(), Code::kDeadlineExceeded) << status.message();
    EXPECT_EQ(status.detail().blamed_ranks, std::vector{3});
    EXPECT_NE(status.message().find("has not called for its other end"), std::string::npos)
        << status.message();
    EXPECT_EQ(rank.comm->failure().code(), Code::kDeadlineExceeded);
  });
}

TEST_F(FakeMessages, AReceiverThatNeverCallsIsNamedAtTheDeadlineAndTheStreamLeaves) {
  options_.deadline_s = 0.3;
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    introduce(rank, out, incoming(rank));
    if (rank.rank != 1) {
      return;
    }
    ASSERT_TRUE(post(rank, {send(rank, 2, out)}).ok());
    const Status status = failure_within_a_second(rank);
    EXPECT_EQ(status.code(), Code::kDeadlineExceeded) << status.message();
    EXPECT_EQ(status.detail().blamed_ranks, std::vector{2});
    rank.finish();  // the stream can be used again
  });
}

TEST_F(FakeMessages, AnAbortEndsStreamsThatWait) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    introduce(rank, out, incoming(rank));
    if (rank.rank == 0) {
      ASSERT_TRUE(post(rank, {send(rank, 1, out)}).ok());
      std::this_thread::sleep_for(std::chrono::milliseconds(60));  // it waits now
      rank.comm->abort();
      rank.finish();
      EXPECT_EQ(failure_within_a_second(rank).code(), Code::kAborted);
      EXPECT_EQ(post(rank, {send(rank, 1, out)}).code(), Code::kAborted);
    }
  });
}

TEST_F(FakeMessages, FailAsTheDriverDoes) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    introduce(rank, out, in);
    if (rank.rank == 3) {
      rank.cuda->fail("copy_async");
    }
    const Status status = post(
        rank, {send(rank, next_of(rank, kRanks), out), recv(rank, previous_of(rank, kRanks), in)});
    EXPECT_EQ(status.code(), rank.rank == 3 ? Code::kSystemError : status.code());
    // Rank 2 waits for rank 3 to take its message.
    if (rank.rank >= 2) {
      const Status failure = failure_within_a_second(rank);
      EXPECT_EQ(failure.code(), rank.rank == 3 ? Code::kSystemError : Code::kAborted)
          << failure.message();
    }
    rank.finish();
  });
}

TEST_F(FakeMessages, GiveBackAllThatTheyTook) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    introduce(rank, out, in);
    ring(rank, out, in);
    rank.finish();
    EXPECT_TRUE(rank.cuda->destroy_stream(rank.stream).ok());
    EXPECT_TRUE(rank.cuda->release(out).ok());
    EXPECT_TRUE(rank.cuda->release(in).ok());
    rank.comm.reset();
    EXPECT_EQ(rank.cuda->left_over(), 0);
  });
}

}  // namespace
}  // namespace sennit::tests
