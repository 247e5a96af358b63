// Blocks of collectives that few thread blocks store in place, as the profile says.
#include "comm/device/testing/offering_gpus.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace sennit::tests {
namespace {

constexpr std::int64_t kLong = (std::int64_t{1} << 20) + 5;  // of a block
constexpr std::int64_t kFrom = 300'000;                      // of all ranks

class FewBlocks : public OfferingGpus {
 protected:
  static constexpr unsigned kFew = 3;
  // With a thread block that waits for each message. Between two ranks the block that stays has as
  // many; among more, they store all in turn.
  [[nodiscard]] unsigned few_of_a_call() const {
    return static_cast<unsigned>(ranks_) + (ranks_ == 2 ? 2 * kFew : kFew);
  }

  FewBlocks() {
    ranks_ = 2;
    for (const Collective collective : {Collective::kAllGather, Collective::kAllToAll}) {
      options_.profile->puts.push_back({collective, 3, kFrom, static_cast<int>(kFew)});
    }
  }

  [[nodiscard]] Operation make(const Rank& rank,
                               Collective collective,
                               std::int64_t count = kLong) const {
    Operation op;
    op.collective = collective;
    op.send = outgoing(rank, ranks_, count);
    op.recv = incoming(rank, ranks_, count);
    op.count = count;
    op.request.protocol = "direct_put";
    return op;
  }
  // Blocks so long, by peer.
  [[nodiscard]] Operation make_varying(const Rank& rank,
                                       std::array<std::int64_t, 2> sent,
                                       std::array<std::int64_t, 2> expected) const {
    Operation op = make(rank, Collective::kAllToAll, 2 * kLong);
    op.varying = true;
    op.count *= 2;
    op.inputs = {{0, sent[0]}, {sent[0], sent[1]}};
    op.outputs = {{0, expected[0]}, {expected[0], expected[1]}};
    return op;
  }

  void call_and_meet(const Rank& rank, const Operation& op) {
    const Status status = rank.call(op);
    ASSERT_TRUE(status.ok()) << status.message();
    rank.finish();
    meet();
  }
  // After this the ranks reach each other's buffers, and know it.
  void map_buffers(const Rank& rank, const Operation& op) {
    for (int i = 0; i < 3; ++i) {
      call_and_meet(rank, op);
    }
  }
  void check(const Rank& rank, const Operation& op) const {
    const auto* const out = static_cast<const std::byte*>(op.recv);
    for (int source = 0; source < ranks_; ++source) {
      const bool is_exchange = op.collective == Collective::kAllToAll;
      ASSERT_TRUE(holds(out + source * op.count,
                        contents(source, op.count, is_exchange ? rank.rank * op.count : 0)))
          << "rank " << rank.rank << ", block of " << source;
    }
  }
  // Into an output that holds nothing of it.
  void call_and_check(const Rank& rank, const Operation& op) {
    std::memset(op.recv, 0xa5, static_cast<std::size_t>(ranks_ * op.count));
    meet();
    call_and_meet(rank, op);
    check(rank, op);
  }
  void exchange(const Rank& rank, std::byte* out, std::byte* in) {
    const int other = 1 - rank.rank;
    const Calls calls = {send(rank, other, out, kLong), recv(rank, other, in, kLong)};
    ASSERT_TRUE(post(rank, requested(calls, "direct_put")).ok());
    rank.finish();
    EXPECT_TRUE(holds(in, contents(other, kLong)));
    meet();
  }
  static unsigned launched(const Rank& rank) { return rank.cuda->last_shape().blocks; }
};

// As many ranks as a row is for; a fourth would want another.
TEST_F(FewBlocks, CarryCollectivesFromTheirSizeOn) {
  for (ranks_ = 2; ranks_ <= 4; ++ranks_) {
    run([&](Rank& rank) {
      for (const Collective collective : {Collective::kAllGather, Collective::kAllToAll}) {
        const Operation op = make(rank, collective);
        call_and_check(rank, op);
        EXPECT_GT(launched(rank), few_of_a_call()) << "packets";
        map_buffers(rank, op);
        call_and_check(rank, op);
        EXPECT_EQ(launched(rank) == few_of_a_call(), ranks_ <= 3) << launched(rank);
        for (const std::int64_t count : {kFrom / ranks_, kFrom / ranks_ - 1}) {
          const Operation shorter = make(rank, collective, count);
          map_buffers(rank, shorter);
          call_and_check(rank, shorter);
          EXPECT_EQ(launched(rank) == few_of_a_call(), ranks_ <= 3 && count * ranks_ == kFrom)
              << launched(rank);
        }
      }
    });
  }
}

TEST_F(FewBlocks, InPlace) {
  run([&](Rank& rank) {
    Operation op = make(rank, Collective::kAllGather);
    auto* const own = static_cast<std::byte*>(op.recv) + rank.rank * kLong;
    std::memcpy(own, op.send, kLong);
    op.send = own;
    map_buffers(rank, op);
    std::memset(static_cast<std::byte*>(op.recv) + (1 - rank.rank) * kLong, 0xa5, kLong);
    meet();
    call_and_meet(rank, op);
    check(rank, op);
    EXPECT_EQ(launched(rank), kFew + 1);
  });
}

TEST_F(FewBlocks, OfThreadsOfOneProcessFromTheFirstCallOn) {
  share_a_process();
  run([&](Rank& rank) {
    call_and_check(rank, make(rank, Collective::kAllGather));
    EXPECT_EQ(launched(rank), few_of_a_call());
  });
}

TEST_F(FewBlocks, AreNotForSendsAndRecvs) {
  run([&](Rank& rank) {
    std::byte* const out = outgoing(rank, 1, kLong);
    std::byte* const in = incoming(rank, 1, kLong);
    for (int i = 0; i < 4; ++i) {
      std::memset(in, 0xa5, kLong);
      meet();
      exchange(rank, out, in);
      EXPECT_GT(launched(rank), few_of_a_call());
    }
  });
}

// What crosses the wire decides, whichever way, and is not to wait for the block that stays.
TEST_F(FewBlocks, CarryBlocksWhoseLengthsVary) {
  struct Case {
    std::int64_t own;
    std::array<std::int64_t, 2> crossing;  // by sender
    bool are_few;
  };
  run([&](Rank& rank) {
    for (const Case& c : {Case{1000, {kLong, kLong / 2 + 3}, true},
                          Case{kLong, {kLong, 70'001}, true},
                          Case{kLong, {70'001, 70'001}, false},
                          Case{2 * kLong, {kLong, kLong}, false}}) {
      const auto at = static_cast<std::size_t>(rank.rank);
      std::array<std::int64_t, 2> sent{};
      std::array<std::int64_t, 2> expected{};
      sent[at] = expected[at] = c.own;
      sent[1 - at] = c.crossing[at];
      expected[1 - at] = c.crossing[1 - at];
      const Operation op = make_varying(rank, sent, expected);
      map_buffers(rank, op);
      std::memset(op.recv, 0xa5, static_cast<std::size_t>(expected[0] + expected[1]));
      meet();
      call_and_meet(rank, op);
      EXPECT_EQ(launched(rank) == few_of_a_call(), c.are_few)
          << launched(rank) << " of rank " << rank.rank << ": " << c.own;
      const auto* out = static_cast<const std::byte*>(op.recv);
      for (const std::size_t source : {0, 1}) {
        const std::int64_t before = rank.rank == 0 ? 0 : (source == 1 ? c.crossing[1] : c.own);
        EXPECT_TRUE(holds(out, contents(static_cast<int>(source), expected[source], before)));
        out += expected[source];
      }
    }
  });
}

// Else packets would have few blocks, too.
TEST_F(FewBlocks, LeaveAllToPacketsWhereABufferIsNotReached) {
  run([&](Rank& rank) {
    Operation op = make(rank, Collective::kAllGather);
    if (rank.rank == 1) {
      op.recv = take(rank.cuda->allocate_private(2 * kLong));
    }
    map_buffers(rank, op);
    call_and_check(rank, op);
    EXPECT_GT(launched(rank), few_of_a_call()) << "rank " << rank.rank;
  });
}

// A rank cannot know that its peer receives in other memory than before.
TEST_F(FewBlocks, SendAllPacketsWhereTheyAreInVain) {
  run([&](Rank& rank) {
    Operation op = make(rank, Collective::kAllGather);
    map_buffers(rank, op);
    if (rank.rank == 1) {
      op.recv = incoming(rank, 2, kLong);
    }
    std::memset(op.recv, 0xa5, 2 * kLong);
    meet();
    ASSERT_TRUE(call_last(rank, 1, op).ok());
    rank.finish();
    check(rank, op);
    EXPECT_EQ(launched(rank) == few_of_a_call(), rank.rank == 0) << "each for itself";
    meet();
    call_and_check(rank, op);
    map_buffers(rank, op);
    call_and_check(rank, op);
    EXPECT_EQ(launched(rank), few_of_a_call());
  });
}

// Words and FIFOs count on, also those of thread blocks that were not launched.
TEST_F(FewBlocks, TakeTurnsWithAllBlocks) {
  run([&](Rank& rank) {
    const Operation op = make(rank, Collective::kAllGather);
    std::byte* const out = outgoing(rank, 1, kLong);
    std::byte* const in = incoming(rank, 1, kLong);
    map_buffers(rank, op);
    for (int i = 0; i < 4; ++i) {
      call_and_check(rank, op);
      EXPECT_EQ(launched(rank), few_of_a_call());
      exchange(rank, out, in);
      EXPECT_GT(launched(rank), few_of_a_call());
    }
  });
}

// One that was captured before the ranks reached each other's buffers stays as it is.
TEST_F(FewBlocks, AreReplayedFromGraphs) {
  run([&](Rank& rank) {
    const Operation op = make(rank, Collective::kAllGather);
    const auto capture = [&] {
      rank.cuda->begin_capture(rank.stream);
      EXPECT_TRUE(rank.call(op).ok());
      return take(rank.cuda->end_capture(rank.stream));
    };
    const FakeGraph packets = capture();
    EXPECT_GT(launched(rank), few_of_a_call());
    map_buffers(rank, op);
    const FakeGraph few = capture();
    EXPECT_EQ(launched(rank), few_of_a_call());
    for (const FakeGraph* const graph : {&few, &packets, &few, &few, &packets, &packets}) {
      std::memset(op.recv, 0xa5, 2 * kLong);
      meet();
      graph->launch(rank.stream);
      rank.finish();
      check(rank, op);
      meet();
    }
  });
}

// Of all that SMs run; a send and a recv have a thread block each in any case.
TEST_F(FewBlocks, AreWhatACallAsksFor) {
  run([&](Rank& rank) {
    for (const Collective collective : {Collective::kAllGather, Collective::kAllToAll}) {
      Operation op = make(rank, collective);
      for (const int most : {200, 6, 4}) {
        op.request.device_blocks = most;
        call_and_check(rank, op);
        EXPECT_LE(launched(rank), static_cast<unsigned>(most)) << name(collective);
        map_buffers(rank, op);
        call_and_check(rank, op);
        EXPECT_LE(launched(rank), static_cast<unsigned>(most)) << name(collective);
      }
    }
  });
}

TEST_F(FewBlocks, AreTheSameOnAllRanksOrNamedAsAMismatch) {
  run([&](Rank& rank) {
    Operation op = make(rank, Collective::kAllGather);
    op.request.device_blocks = rank.rank == 0 ? 4 : 5;
    (void)rank.call(op);
    EXPECT_EQ(failure_of(rank).code(), Code::kMismatch);
    meet();
  });
}

TEST_F(FewBlocks, LeaveAtTheDeadline) {
  options_.deadline_s = 2;
  run([&](Rank& rank) {
    const Operation op = make(rank, Collective::kAllGather);
    map_buffers(rank, op);
    leave_at_the_deadline(rank, op);
  });
}

}  // namespace
}  // namespace sennit::tests
