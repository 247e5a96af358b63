// How sends and recvs fail.
#include "comm/device/testing/fake_messages.hpp"
#include "exec/sm/testing/fake_pairs_kernel.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace sennit::tests {
namespace {

// Ends of different sizes, of the same engine or of two.
class FakeMismatches : public FakeMessages, public ::testing::WithParamInterface<std::int64_t> {};

TEST_P(FakeMismatches, AreNamedByBothEnds) {
  run([&](Rank& rank) {
    if (rank.rank > 1) {
      return;
    }
    std::byte* const memory = outgoing(rank, 2);
    const Calls calls = {rank.rank == 0 ? send(rank, 1, memory, GetParam())
                                        : recv(rank, 0, memory, kLarge)};
    const Status posted = post(rank, calls);
    EXPECT_EQ(posted.ok(), rank.rank == 0) << posted.message();
    const Status status = failure_of(rank);
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
  options_.deadline_s = 2;  // enough for the first messages, however slow the build
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    introduce(rank, out, incoming(rank));
    if (rank.rank != 1) {
      return;
    }
    ASSERT_TRUE(post(rank, {send(rank, 2, out)}).ok());
    const Status status = failure_of(rank);
    EXPECT_EQ(status.code(), Code::kDeadlineExceeded) << status.message();
    EXPECT_EQ(status.detail().blamed_ranks, std::vector{2});
    rank.finish();  // the stream can be used again
  });
}

TEST_F(FakeMessages, WaitInStreamsAsLongAsTheirCallsSay) {
  options_.deadline_s = 2;
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    introduce(rank, out, in);
    if (rank.rank == 1) {
      Calls calls{send(rank, 2, out)};
      calls[0].operation.deadline_s = -1;
      ASSERT_TRUE(post(rank, calls).ok());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    if (rank.rank == 2) {
      ASSERT_TRUE(post(rank, {recv(rank, 1, in)}).ok());
    }
    rank.finish();
    meet();
    EXPECT_TRUE(rank.comm->failure().ok()) << rank.comm->failure().message();
    if (rank.rank == 0) {
      Calls calls{send(rank, 3, out)};
      calls[0].operation.deadline_s = 0.1;
      const auto begin = Clock::now();
      ASSERT_TRUE(post(rank, calls).ok());
      EXPECT_EQ(failure_of(rank).code(), Code::kDeadlineExceeded);
      EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(1900));
      rank.finish();
    }
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
      EXPECT_EQ(failure_of(rank).code(), Code::kAborted);
      EXPECT_EQ(post(rank, {send(rank, 1, out)}).code(), Code::kAborted);
    }
  });
}

TEST_F(FakeMessages, AreAbandonedWhenTheCommunicatorEndsAndNobodyTakesThem) {
  options_.finalize_s = 0.3;
  Mark mark;
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    introduce(rank, out, incoming(rank));
    if (rank.rank != 0) {
      EXPECT_TRUE(rank.comm->finalize().ok()) << "nothing is on its way";
      return;
    }
    ASSERT_TRUE(post(rank, {send(rank, 1, out)}).ok());
    mark.put_into(rank);
    const Status status = rank.comm->finalize();
    EXPECT_EQ(status.code(), Code::kInvalidUsage) << status.message();
    EXPECT_TRUE(mark.is_reached());
    EXPECT_EQ(post(rank, {send(rank, 1, out)}).code(), Code::kInvalidUsage);
  });
}

TEST_F(FakeMessages, AreAbandonedByTheDestructorToo) {
  options_.finalize_s = 0.3;
  Mark mark;
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    introduce(rank, out, incoming(rank));
    if (rank.rank == 2) {
      ASSERT_TRUE(post(rank, {send(rank, 3, out)}).ok());
      mark.put_into(rank);
      rank.comm.reset();
      EXPECT_TRUE(mark.is_reached());
    }
  });
}

TEST_F(FakeMessages, AreToldOfByFinalizeIfTheyFailMeanwhile) {
  options_.deadline_s = 2;  // enough for the first messages, however slow the build
  options_.finalize_s = 60;
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    introduce(rank, out, incoming(rank));
    if (rank.rank == 0) {
      ASSERT_TRUE(post(rank, {send(rank, 1, out)}).ok());
      EXPECT_EQ(rank.comm->finalize().code(), Code::kDeadlineExceeded);
      EXPECT_TRUE(rank.comm->finalize().ok()) << "it waits for nothing";
    }
  });
}

TEST_F(FakeMessages, AreWaitedForWhereThereIsNoDeadline) {
  options_.deadline_s = -1;
  options_.finalize_s = 0.05;
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    introduce(rank, out, in);
    if (rank.rank == 0) {
      ASSERT_TRUE(post(rank, {send(rank, 1, out)}).ok());
      EXPECT_TRUE(rank.comm->finalize().ok());
    }
    if (rank.rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      ASSERT_TRUE(post(rank, {recv(rank, 0, in)}).ok());
      rank.finish();
      EXPECT_TRUE(came_from(0, in));
    }
  });
}

// As a program does that needs the communicator no more.
void leave(Rank& rank) {
  EXPECT_TRUE(rank.comm->finalize().ok());
  rank.joined->finalize();
  rank.comm.reset();
}

// One more send, or recv, than the rank at its other end has called for before it left; of so many
// bytes, for copy engines or for kernels.
class FakeLeaving : public FakeMessages,
                    public ::testing::WithParamInterface<std::tuple<bool, std::int64_t>> {};

TEST_P(FakeLeaving, NamesTheRankThatDidNotCall) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    introduce(rank, out, in);
    rank.cuda->run_kernels(fake_pairs_kernel);
    if (rank.rank == 0) {
      leave(rank);
    }
    meet();
    if (rank.rank == 1) {
      const auto [is_send, count] = GetParam();
      (void)post(rank, {is_send ? send(rank, 0, out, count) : recv(rank, 0, in, count)});
      const Status status = failure_of(rank);
      EXPECT_EQ(status.code(), Code::kMismatch) << status.message();
      EXPECT_EQ(status.detail().blamed_ranks, std::vector{0});
      const char* const words = is_send ? "finalized the communicator after 1 recvs from this "
                                          "rank; this rank has called 2 sends to it"
                                        : "finalized the communicator after 1 sends to this rank; "
                                          "this rank has called 2 recvs from it";
      EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
      rank.finish();  // the stream has left
    }
  });
}

// Those of kernels are longer than what a receiver takes in before it is called.
INSTANTIATE_TEST_SUITE_P(Messages,
                         FakeLeaving,
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::Values(kLarge, kLarge - 100)));

// Its packets lie with the receiver.
TEST_F(FakeMessages, OfARankThatHasLeftArriveAsItSentThem) {
  run([&](Rank& rank) {
    rank.cuda->run_kernels(fake_pairs_kernel);
    // Off multiples of 16 bytes, so that no message has the kernel of small ones.
    std::byte* const out = outgoing(rank) + 1;
    std::byte* const in = incoming(rank) + 1;
    if (rank.rank < 2) {
      const int peer = 1 - rank.rank;
      ASSERT_TRUE(post(rank, {send(rank, peer, out, kSmall), recv(rank, peer, in, kSmall)}).ok());
      rank.finish();
    }
    meet();
    if (rank.rank == 0) {
      ASSERT_TRUE(post(rank, {send(rank, 1, out, 0)}).ok());
      ASSERT_TRUE(post(rank, {send(rank, 1, out, kSmall - 1)}).ok());
      leave(rank);
    }
    meet();
    if (rank.rank == 1) {
      ASSERT_TRUE(post(rank, {recv(rank, 0, in, 0)}).ok());
      std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the watcher looks
      std::memset(in, 0, kSmall);
      ASSERT_TRUE(post(rank, {recv(rank, 0, in, kSmall - 1)}).ok());
      rank.finish();
      EXPECT_TRUE(holds(in, contents(0, kSmall - 1, 1)));
      EXPECT_TRUE(rank.comm->failure().ok()) << rank.comm->failure().message();
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
    stream::RankWords& words = rank.joined->world().stream_words()[rank.rank];
    const std::uint64_t calls = words.ended;
    const Status status = post(rank, fetched(rank, out, in));
    EXPECT_EQ(status.code() == Code::kSystemError, rank.rank == 3) << status.message();
    // Rank 2 waits for rank 3 to take its message.
    if (rank.rank >= 2) {
      const Status failure = failure_of(rank);
      EXPECT_EQ(failure.code(), rank.rank == 3 ? Code::kSystemError : Code::kAborted)
          << failure.message();
    }
    rank.finish();
    if (status.code() == Code::kAborted) {
      return;  // it knew of the failure before it began
    }
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::atomic_ref(words.ended).load() == calls &&
           std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // it may end on another stream
    }
    EXPECT_EQ(std::atomic_ref(words.ended).load(), calls + 1)
        << "the watcher waits for the end of the call";
    EXPECT_EQ(std::atomic_ref(words.running).load(), stream::kIdle)
        << "the watcher takes the call for running";
  });
}

// What is put goes into memory of the receiver, who hears before that of what went wrong.
class FakeFailingPuts : public FakeMessages {
 protected:
  static constexpr int kSender = 0;
  static constexpr int kReceiver = 1;

  // A put to which the stream of one end does not come until all have done with `body`.
  void put_in_vain(int gated, const std::function<void(Rank&)>& body) {
    run([&](Rank& rank) {
      std::byte* const out = outgoing(rank);
      std::byte* const in = incoming(rank);
      introduce_well(rank, out, in);
      const Gate gate(rank);
      if (rank.rank == gated) {
        gate.close(rank.stream);
      }
      put(rank, kSender, kReceiver, rank.rank == kSender ? out : in);
      meet();  // what `body` does could fail a post that has not returned
      body(rank);
      meet();
      gate.open();
      rank.finish();
    });
  }

  // The sender waits to be admitted; `end` is how it ends that. What the receiver gets.
  void let_go(const std::function<void(Rank&)>& end, Code code, int blamed) {
    put_in_vain(kReceiver, [&](Rank& rank) {
      if (rank.rank == kSender) {
        end(rank);
        rank.finish();
      }
      if (rank.rank == kReceiver) {
        const Status status = failure_of(rank);
        EXPECT_EQ(status.code(), code) << status.message();
        EXPECT_EQ(status.detail().blamed_ranks, std::vector{blamed}) << status.message();
      }
    });
  }
};

TEST_F(FakeFailingPuts, AReceiverHearsOfTheDeadlineOfItsSender) {
  options_.deadline_s = 2;  // enough for the first messages, however slow the build
  const auto wait = [](Rank& rank) {
    const Status status = failure_of(rank);
    EXPECT_EQ(status.code(), Code::kDeadlineExceeded) << status.message();
    EXPECT_EQ(status.detail().blamed_ranks, std::vector{kReceiver});
  };
  let_go(wait, Code::kDeadlineExceeded, kReceiver);
}

TEST_F(FakeFailingPuts, AReceiverHearsOfAnAbortOfItsSender) {
  let_go([](Rank& rank) { rank.comm->abort(); }, Code::kAborted, kSender);
}

TEST_F(FakeFailingPuts, AReceiverHearsWhatItsSenderAbandons) {
  options_.finalize_s = 0.2;
  const auto abandon = [](Rank& rank) {
    EXPECT_EQ(rank.comm->finalize().code(), Code::kInvalidUsage);
  };
  let_go(abandon, Code::kAborted, kSender);
}

TEST_F(FakeFailingPuts, AReceiverLeavesThatWaitsForOne) {
  options_.deadline_s = 2;
  put_in_vain(kSender, [](Rank& rank) {
    if (rank.rank == kReceiver) {
      const Status status = failure_of(rank);
      EXPECT_EQ(status.code(), Code::kDeadlineExceeded) << status.message();
      EXPECT_EQ(status.detail().blamed_ranks, std::vector{kSender});
      rank.finish();
    }
    if (rank.rank == kSender) {
      EXPECT_EQ(failure_of(rank).code(), Code::kDeadlineExceeded);
    }
  });
}

TEST_F(FakeFailingPuts, AReceiverHearsOfADriverThatFails) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    introduce_well(rank, out, in);
    if (rank.rank == kSender) {
      rank.cuda->fail("copy_async");
      await_post(rank, kReceiver);
      EXPECT_EQ(post(rank, {send(rank, kReceiver, out)}).code(), Code::kSystemError);
    }
    if (rank.rank == kReceiver) {
      (void)post(rank, {recv(rank, kSender, in)});  // who may see it at once
      EXPECT_EQ(failure_of(rank).code(), Code::kAborted);
    }
    rank.finish();
  });
}

// Behind work of the program: by then its waits are over, as if the message had come.
TEST_F(FakeMessages, ThatWereLetGoHaveFailedAlsoIfNobodyAskedBefore) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    std::byte* const in = incoming(rank);
    introduce(rank, out, in);
    const Gate gate(rank);
    gate.close(rank.stream);
    if (rank.rank == 0) {
      ASSERT_TRUE(post(rank, requested({send(rank, 1, out)}, "direct_get")).ok());
    }
    if (rank.rank == 1) {
      ASSERT_TRUE(post(rank, requested({recv(rank, 0, in)}, "direct_get")).ok());
    }
    meet();
    if (rank.rank == 0) {
      rank.comm->abort();
    }
    if (rank.rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));  // its watcher hears
      gate.open();
      rank.finish();
      const Status status = rank.comm->failure();
      EXPECT_EQ(status.code(), Code::kAborted) << status.message();
      EXPECT_EQ(status.detail().blamed_ranks, std::vector{0});
    }
    meet();
    gate.open();
    rank.finish();
  });
}

TEST_F(FakeMessages, NobodyIsBlamedForOthersThatWereWaitedForAsWell) {
  options_.deadline_s = 2;
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank);
    introduce(rank, out, incoming(rank));
    if (rank.rank == 0) {
      ASSERT_TRUE(
          post(rank, requested({send(rank, 1, out), send(rank, 2, out)}, "direct_get")).ok());
      EXPECT_EQ(failure_of(rank).detail().blamed_ranks, (std::vector{1, 2}));
      rank.finish();
    }
    if (rank.rank == 3) {
      Status status;
      for (int i = 0; i < 200 && status.ok(); ++i) {  // ten seconds
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        status = post(rank, {send(rank, 2, out, 0)});
      }
      EXPECT_EQ(status.code(), Code::kDeadlineExceeded) << status.message();
      EXPECT_TRUE(status.detail().blamed_ranks.empty()) << status.message();
    }
  });
}

}  // namespace
}  // namespace sennit::tests
