// Ranks of one GPU that runs their kernels in turn: rank 0 runs what all of them have to do.
#include "comm/device/testing/fake_gpus.hpp"
#include "exec/sm/testing/fake_direct_kernel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

namespace sennit::tests {
namespace {

class InTurn : public FakeGpus {
 protected:
  InTurn() { devices_ = {0, 0, 0, 0}; }

  static constexpr std::int64_t kCount = 1003;  // of a rank's part, in bytes

  static Operation operation(const Rank& rank, Collective collective, int root) {
    Operation op;
    op.collective = collective;
    op.send = rank.send;
    op.recv = rank.recv;
    op.count = kCount;
    op.root = root;
    return op;
  }

  static Bytes part(int source, int index) { return contents(source, kCount, index * kCount); }

  // What the collective leaves in the output of `rank`, part by part.
  static std::vector<Bytes> expected(const Operation& op, int rank) {
    std::vector<Bytes> parts;
    for (int source = 0; source < kRanks; ++source) {
      if (op.collective == Collective::kAllGather ||
          (op.collective == Collective::kGather && rank == op.root)) {
        parts.push_back(part(source, 0));
      } else if (op.collective == Collective::kAllToAll) {
        parts.push_back(part(source, rank));
      }
    }
    if (op.collective == Collective::kBroadcast) {
      parts.push_back(part(op.root, 0));
    } else if (op.collective == Collective::kScatter) {
      parts.push_back(part(op.root, rank));
    }
    return parts;
  }

  static void fill_parts(Rank& rank) {
    rank.send = rank.allocate(kCount * kRanks);
    rank.recv = rank.allocate(kCount * kRanks);
    for (int index = 0; index < kRanks; ++index) {
      std::memcpy(rank.send + index * kCount, part(rank.rank, index).data(), kCount);
    }
  }

  static void check(const Rank& rank, const Operation& op) {
    const std::vector<Bytes> parts = expected(op, rank.rank);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::byte* const found =
          static_cast<const std::byte*>(op.recv) + static_cast<std::int64_t>(i) * kCount;
      ASSERT_TRUE(holds(found, parts[i])) << "rank " << rank.rank << ", part " << i;
    }
  }
};

TEST_F(InTurn, TheLeaderAloneCopies) {
  run([](Rank& rank) {
    fill_parts(rank);
    for (const Collective collective : {Collective::kAllGather,
                                        Collective::kAllToAll,
                                        Collective::kBroadcast,
                                        Collective::kGather,
                                        Collective::kScatter}) {
      for (int root = 0; root < (is_rooted(collective) ? kRanks : 1); ++root) {
        std::memset(rank.recv, 0xa5, kCount * kRanks);
        const int copied = rank.cuda->calls("copy_async");
        const Operation op = operation(rank, collective, root);
        ASSERT_TRUE(rank.call(op).ok());
        rank.finish();
        check(rank, op);
        EXPECT_EQ(rank.cuda->calls("copy_async") > copied, rank.rank == 0)
            << name(collective) << ", rank " << rank.rank;
      }
    }
    EXPECT_EQ(rank.launches(), 0);
  });
}

// By copies where they can run it: kernels that wait for each other take milliseconds here.
TEST_F(InTurn, ANamedAlgorithmRuns) {
  run([](Rank& rank) {
    fill_parts(rank);
    rank.cuda->run_kernels(fake_direct_kernel);
    for (const char* const algorithm : {"direct", "scatter_forward"}) {
      std::memset(rank.recv, 0xa5, kCount * kRanks);
      const int before = rank.launches();
      Operation op = operation(rank, Collective::kBroadcast, 1);
      op.request.algorithm = algorithm;
      const Status status = rank.call(op);
      ASSERT_TRUE(status.ok()) << status.message();
      rank.finish();
      check(rank, op);
      EXPECT_EQ(rank.launches() > before, op.request.algorithm == "scatter_forward");
    }
  });
}

TEST_F(InTurn, BlocksInPlaceStayWhereTheyAre) {
  run([](Rank& rank) {
    fill_parts(rank);
    std::memset(rank.recv, 0xa5, kCount * kRanks);
    std::memcpy(rank.recv + rank.rank * kCount, part(rank.rank, 0).data(), kCount);
    const int copied = rank.cuda->calls("copy_async");
    Operation op = operation(rank, Collective::kAllGather, 0);
    op.send = rank.recv + rank.rank * kCount;
    ASSERT_TRUE(rank.call(op).ok());
    rank.finish();
    check(rank, op);
    EXPECT_EQ(rank.cuda->calls("copy_async") - copied, rank.rank == 0 ? kRanks * (kRanks - 1) : 0);
  });
}

TEST_F(InTurn, ABarrierWaitsForTheLast) {
  run([this](Rank& rank) {
    const Gate gate(rank);
    if (rank.rank == kRanks - 1) {
      gate.close(rank.stream);
    }
    ASSERT_TRUE(rank.call(operation(rank, Collective::kBarrier, 0)).ok());
    gate.mark_end(rank.stream);
    meet();
    EXPECT_FALSE(gate.has_ended());
    meet();
    gate.open();
    rank.finish();
    EXPECT_TRUE(gate.has_ended());
    EXPECT_EQ(rank.launches(), 0);
  });
}

// Where no stream has anything to do, hosts wait for the leader. Not for long, so on busy cores
// only some calls end that way.
TEST_F(InTurn, StreamsOfIdleMembersGetNothing) {
  constexpr int kMostCalls = 5000;
  std::array<std::atomic<bool>, kRanks> got_nothing{};
  got_nothing[0] = true;  // the leader's always gets something
  run([&](Rank& rank) {
    fill_parts(rank);
    const Operation op = operation(rank, Collective::kAllGather, 0);
    for (int i = 0; i < kMostCalls; ++i) {
      meet();
      if (std::ranges::all_of(got_nothing, [](const auto& each) { return each.load(); })) {
        break;
      }
      std::memset(rank.recv, 0xa5, kCount * kRanks);
      const int walked = rank.cuda->calls("walk_words");
      ASSERT_TRUE(rank.call(op).ok());
      const bool is_untouched = rank.cuda->calls("walk_words") == walked;
      if (is_untouched) {
        got_nothing[static_cast<std::size_t>(rank.rank)] = true;
      }
      EXPECT_FALSE(is_untouched && rank.rank == 0);
      rank.finish();
      check(rank, op);
    }
  });
  for (const std::atomic<bool>& each : got_nothing) {
    EXPECT_TRUE(each);
  }
}

TEST_F(InTurn, AStreamWaitsWhereTheLeaderTakesLong) {
  std::atomic<int> waiting = 0;
  run([&](Rank& rank) {
    fill_parts(rank);
    const Operation op = operation(rank, Collective::kAllGather, 0);
    ASSERT_TRUE(rank.call(op).ok());
    rank.finish();
    std::memset(rank.recv, 0xa5, kCount * kRanks);
    meet();
    rank.cuda->watch([&](const FakeCuda::Issued& issued) {
      if (rank.rank != 0 && issued.what == FakeCuda::Issued::What::kWalk) {
        ++waiting;
      }
      while (rank.rank == 0 && waiting < kRanks - 1) {
        std::this_thread::yield();
      }
    });
    ASSERT_TRUE(rank.call(op).ok());
    rank.cuda->watch(nullptr);
    rank.finish();
    check(rank, op);
  });
}

// Whoever waits for a leader that does not come leaves at the deadline, too.
TEST_F(InTurn, MembersLeaveALateLeaderAtTheDeadline) {
  options_.deadline_s = 2;
  run([this](Rank& rank) {
    fill_parts(rank);
    const Operation op = operation(rank, Collective::kAllGather, 0);
    ASSERT_TRUE(rank.call(op).ok());
    rank.finish();
    meet();
    leave_at_the_deadline(rank, op, /*late=*/0);
  });
}

// A rank that gives up, leader or member, frees streams that wait for it: at once, not at the
// deadline.
TEST_F(InTurn, StreamsThatWaitForARankThatGivesUpGoOn) {
  for (const int quitter : {0, kRanks - 1}) {
    run([&](Rank& rank) {
      fill_parts(rank);
      const Operation op = operation(rank, Collective::kAllGather, 0);
      const Gate gate(rank);
      if (rank.rank == quitter) {
        gate.close(rank.stream);  // so that its part of the call never begins
      }
      EXPECT_TRUE(rank.call(op).ok());
      meet();
      if (rank.rank == quitter) {
        rank.comm->abort();
      }
      EXPECT_EQ(failure_of(rank).code(), Code::kAborted) << failure_of(rank).message();
      if (rank.rank != quitter) {
        rank.finish();
      }
      meet();
      gate.open();
      rank.finish();
    });
  }
}

// The leader would write beyond the buffers of members that have made a shorter call.
TEST_F(InTurn, ARankThatMakesAnotherCallIsNamedBeforeAnythingMoves) {
  run([this](Rank& rank) {
    fill_parts(rank);
    std::memset(rank.recv, 0xa5, kCount * kRanks);
    const Bytes untouched(rank.recv, rank.recv + kCount * kRanks);
    const Collective collective = rank.rank == 0 ? Collective::kAllGather : Collective::kBroadcast;
    const Status status = rank.call(operation(rank, collective, 0));
    EXPECT_EQ(status.code(), Code::kMismatch) << status.message();
    EXPECT_NE(status.message().find("all_gather of 1003"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("broadcast of 1003"), std::string::npos) << status.message();
    rank.finish();
    meet();
    EXPECT_TRUE(holds(rank.recv, untouched));
  });
}

// With a queue for all streams of a device what waits there holds up what comes behind it.
TEST_F(InTurn, CallsFollowEachOtherInOneQueue) {
  cuda_options_.one_queue = true;
  run([](Rank& rank) {
    fill_parts(rank);
    for (int i = 0; i < 20; ++i) {
      std::memset(rank.recv, 0xa5, kCount * kRanks);
      const Operation op =
          operation(rank, i % 2 == 0 ? Collective::kAllToAll : Collective::kBroadcast, i % kRanks);
      ASSERT_TRUE(rank.call(op).ok());
      ASSERT_TRUE(rank.call(operation(rank, Collective::kBarrier, 0)).ok());
      rank.finish();
      check(rank, op);
    }
  });
}

}  // namespace
}  // namespace sennit::tests
