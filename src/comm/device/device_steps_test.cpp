// Calls that kernels run step by step, of ranks with fake GPUs.
#include "algo/given_schedules.hpp"
#include "comm/device/testing/fake_gpus.hpp"
#include "exec/sm/testing/fake_direct_kernel.hpp"
#include "exec/sm/testing/fake_steps.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>

namespace sennit::tests {
namespace {

constexpr std::int64_t kCount = 70'001;  // of uint32: tiles of many blocks, the last ones ragged

std::uint32_t value(int rank, std::int64_t i) {
  return static_cast<std::uint32_t>(i * 2654435761 + std::int64_t{rank} * 40503 + 1);
}

FakeCuda::Kernel steps_of(Dtype dtype, ReduceOp op) {
  return [dtype, op](const void* /*kernel*/, const void* parameters) {
    return [call = *static_cast<const sm::StepCall*>(parameters), dtype, op] {
      sm::FakeSteps(call, {.dtype = dtype, .op = op}).run();
    };
  };
}

void expect_ok(const Status& status) { ASSERT_TRUE(status.ok()) << status.message(); }

class SteppingGpus : public FakeGpus {
 protected:
  static Operation requested(const Rank& rank,
                             Collective collective,
                             const std::string& algorithm) {
    Operation op;
    op.collective = collective;
    op.send = rank.send;
    op.recv = rank.recv;
    op.count = kCount;
    op.dtype = Dtype::kUint32;
    op.request.algorithm = algorithm;
    return op;
  }

  static void fill(Rank& rank, std::int64_t inputs, std::int64_t outputs, bool in_place = false) {
    rank.recv = rank.allocate(outputs * 4);
    rank.send = in_place ? rank.recv : rank.allocate(inputs * 4);
    refill(rank, inputs);
    rank.cuda->run_kernels(steps_of(Dtype::kUint32, ReduceOp::kSum));
  }
  static void refill(const Rank& rank, std::int64_t inputs) {
    for (std::int64_t i = 0; i < inputs; ++i) {
      const std::uint32_t v = value(rank.rank, i);
      std::memcpy(rank.send + i * 4, &v, 4);
    }
  }

  static std::uint32_t found(const Rank& rank, std::int64_t i) {
    std::uint32_t v = 0;
    std::memcpy(&v, rank.recv + i * 4, 4);
    return v;
  }
  static void check_sum(const Rank& rank, const std::string& what) {
    for (std::int64_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(found(rank, i), value(0, i) + value(1, i) + value(2, i) + value(3, i))
          << what << ", rank " << rank.rank << ", element " << i;
    }
  }
};

TEST_F(SteppingGpus, RunEveryRowOfAllReduceByRequest) {
  run([](Rank& rank) {
    fill(rank, kCount, kCount, rank.rank % 2 == 1);
    for (const Algorithm& algorithm : algorithms(Collective::kAllReduce)) {
      if (has_direct_kernel(algorithm.name)) {
        continue;
      }
      refill(rank, kCount);
      const int before = rank.launches();
      expect_ok(rank.call(requested(rank, Collective::kAllReduce, std::string(algorithm.name))));
      rank.finish();
      EXPECT_EQ(rank.launches(), before + 1);
      check_sum(rank, std::string(algorithm.name));
    }
  });
}

TEST_F(SteppingGpus, RunSchedulesThatAProgramHasBrought) {
  Schedule mine =
      *make_schedule(**find_algorithm(Collective::kAllReduce, "ring"), {.ranks = kRanks});
  mine.algorithm = "mine";
  const std::string name(keep_schedule(std::move(mine)).name);
  run([&](Rank& rank) {
    fill(rank, kCount, kCount);
    const int before = rank.launches();
    expect_ok(rank.call(requested(rank, Collective::kAllReduce, name)));
    rank.finish();
    EXPECT_EQ(rank.launches(), before + 1);
    check_sum(rank, name);
    const Operation half = requested(rank, Collective::kAllGather, name);
    EXPECT_EQ(rank.call(half).code(), Code::kInvalidArgument);
  });
}

TEST_F(SteppingGpus, MoveBlocksOverManyHops) {
  run([](Rank& rank) {
    fill(rank, kCount * kRanks, kCount * kRanks);
    expect_ok(rank.call(requested(rank, Collective::kAllGather, "ring")));
    rank.finish();
    for (std::int64_t i = 0; i < kCount * kRanks; ++i) {
      ASSERT_EQ(found(rank, i), value(static_cast<int>(i / kCount), i % kCount));
    }
    expect_ok(rank.call(requested(rank, Collective::kAllToAll, "bruck")));
    rank.finish();
    for (std::int64_t i = 0; i < kCount * kRanks; ++i) {
      const auto source = static_cast<int>(i / kCount);
      ASSERT_EQ(found(rank, i), value(source, rank.rank * kCount + i % kCount));
    }
    Operation broadcast = requested(rank, Collective::kBroadcast, "chain");
    broadcast.root = 2;
    expect_ok(rank.call(broadcast));
    rank.finish();
    for (std::int64_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(found(rank, i), value(2, i));
    }
  });
}

// Their staging buffers have other channels and other tiles from call to call, and nothing waits
// between.
TEST_F(SteppingGpus, HaveManyCallsInFlight) {
  run([](Rank& rank) {
    fill(rank, kCount, kCount);
    std::byte* const first = rank.recv;
    std::byte* const gathered = rank.allocate(kCount * 4 * kRanks);
    for (int i = 0; i < 5; ++i) {
      rank.recv = first;
      expect_ok(rank.call(requested(rank, Collective::kAllReduce, "ring")));
      expect_ok(rank.call(requested(rank, Collective::kAllReduce, "halving_doubling")));
      rank.recv = gathered;
      expect_ok(rank.call(requested(rank, Collective::kAllGather, "ring")));
      rank.recv = first;
      Operation reduce = requested(rank, Collective::kReduce, "k_nomial");
      reduce.root = i % kRanks;
      reduce.count = 100 + i;
      expect_ok(rank.call(reduce));
      expect_ok(rank.call(requested(rank, Collective::kAllReduce, "hierarchical_sliced")));
    }
    rank.finish();
    check_sum(rank, "the last of many");
  });
}

TEST_F(SteppingGpus, AndPacketsTakeTurns) {
  run([](Rank& rank) {
    fill(rank, kCount, kCount);
    for (int i = 0; i < 3; ++i) {
      rank.cuda->run_kernels(steps_of(Dtype::kUint32, ReduceOp::kSum));
      expect_ok(rank.call(requested(rank, Collective::kAllReduce, "ring")));
      rank.cuda->run_kernels(fake_direct_kernel);
      Operation gather;
      gather.collective = Collective::kAllGather;
      const Bytes mine(101, static_cast<std::byte>(rank.rank + i));
      std::byte* const send = rank.allocate(101);
      std::byte* const recv = rank.allocate(1 + 101 * kRanks);
      std::memcpy(send, mine.data(), mine.size());
      gather.send = send;
      gather.recv = recv + 1;
      gather.count = 101;
      gather.request.protocol = "ll";
      expect_ok(rank.call(gather));
      rank.finish();
      check_sum(rank, "a ring");
      for (int source = 0; source < kRanks; ++source) {
        EXPECT_TRUE(holds(recv + 1 + std::ptrdiff_t{source} * 101,
                          Bytes(101, static_cast<std::byte>(source + i))));
      }
    }
  });
}

// On all ranks, so the communicator goes on.
TEST_F(SteppingGpus, RefuseACallOfTooManyMessages) {
  run([](Rank& rank) {
    fill(rank, kCount, kCount);
    Operation endless = requested(rank, Collective::kAllReduce, "ring");
    endless.recv = rank.send;
    endless.count = std::int64_t{1} << 44;
    const Status refused = rank.call(endless);
    EXPECT_EQ(refused.code(), Code::kUnsupported);
    EXPECT_NE(refused.message().find("messages of one channel"), std::string::npos)
        << refused.message();
    expect_ok(rank.call(requested(rank, Collective::kAllReduce, "ring")));
    rank.finish();
    check_sum(rank, "a call after one that was refused");
  });
}

// Nothing has to be there before: the first call of its kind may be captured.
TEST_F(SteppingGpus, AreReplayedFromGraphs) {
  run([this](Rank& rank) {
    fill(rank, kCount, kCount);
    rank.cuda->begin_capture(rank.stream);
    expect_ok(rank.call(requested(rank, Collective::kAllReduce, "ring")));
    expect_ok(rank.call(requested(rank, Collective::kAllReduce, "hierarchical")));
    const FakeGraph graph = take(rank.cuda->end_capture(rank.stream));
    for (int replay = 0; replay < 5; ++replay) {
      std::memset(rank.recv, 0xa5, kCount * 4);
      graph.launch(rank.stream);
      rank.finish();
      check_sum(rank, "a replay");
      meet();
    }
  });
}

TEST_F(SteppingGpus, ScaleOnce) {
  run([](Rank& rank) {
    fill(rank, kCount, kCount);
    for (std::int64_t i = 0; i < kCount; ++i) {
      const auto v = static_cast<float>(i % 512 + rank.rank);
      std::memcpy(rank.send + i * 4, &v, 4);
    }
    const auto check = [&](ReduceOp op, float scalar, const std::function<float(float)>& expected) {
      rank.cuda->run_kernels(steps_of(Dtype::kFloat32, op));
      Operation operation = requested(rank, Collective::kAllReduce, "hierarchical_sliced");
      operation.dtype = Dtype::kFloat32;
      operation.op = op;
      std::memcpy(operation.scaling.scalar.data(), &scalar, 4);
      expect_ok(rank.call(operation));
      rank.finish();
      for (std::int64_t i = 0; i < kCount; ++i) {
        float sum = 0;
        std::memcpy(&sum, rank.recv + i * 4, 4);
        ASSERT_EQ(sum, expected(static_cast<float>(4 * (i % 512) + 6))) << i;
      }
    };
    check(ReduceOp::kAvg, 0, [](float sum) { return sum / 4; });
    check(ReduceOp::kPremulSum, 0.5F, [](float sum) { return sum / 2; });
    check(ReduceOp::kSum, 0, [](float sum) { return sum; });
  });
}

TEST_F(SteppingGpus, RefuseByNameWhatTheyMayNot) {
  run([](Rank& rank) {
    fill(rank, kCount * kRanks, kCount * kRanks, true);
    Status status = rank.call(requested(rank, Collective::kAllToAll, "pairwise"));
    EXPECT_EQ(status.code(), Code::kUnsupported);
    EXPECT_NE(status.message().find("pairwise on 4 ranks is not proved in place"),
              std::string::npos)
        << status.message();

    Operation ordered = requested(rank, Collective::kAllReduce, "ring");
    ordered.request.rank_order = true;
    status = rank.call(ordered);
    EXPECT_EQ(status.code(), Code::kUnsupported);
    EXPECT_NE(status.message().find("which `reproducible` needs"), std::string::npos)
        << status.message();

    Operation packets = requested(rank, Collective::kAllReduce, "ring");
    packets.request.protocol = "ll";
    status = rank.call(packets);
    EXPECT_EQ(status.code(), Code::kUnsupported);
    EXPECT_NE(status.message().find("ring is no schedule for the direct kernel"), std::string::npos)
        << status.message();
    EXPECT_EQ(rank.launches(), 0);

    // All have refused: nothing is in the way of the next call.
    rank.send = rank.recv = rank.allocate(kCount * 4);
    refill(rank, kCount);
    expect_ok(rank.call(requested(rank, Collective::kAllReduce, "ring")));
    rank.finish();
    check_sum(rank, "after refusals");
  });
}

// Only ranks in place refuse it; the others' kernels wait for them.
TEST_F(SteppingGpus, HearAtOnceThatAnotherRankHasRefused) {
  run([this](Rank& rank) {
    fill(rank, kCount * kRanks, kCount * kRanks, rank.rank == 2);
    const Status called = call_last(rank, 2, requested(rank, Collective::kAllToAll, "pairwise"));
    EXPECT_EQ(called.code(), rank.rank == 2 ? Code::kUnsupported : Code::kOk) << called.message();
    const Status status = failure_of(rank);
    EXPECT_EQ(status.code(), Code::kMismatch) << status.message();
    EXPECT_EQ(status.detail().blamed_ranks, std::vector{2});
    EXPECT_NE(status.message().find("refused there: its own error says why"), std::string::npos)
        << status.message();
    rank.finish();
  });
}

TEST_F(SteppingGpus, HearAtOnceThatAnotherRankCouldNotLaunch) {
  run([this](Rank& rank) {
    fill(rank, kCount, kCount);
    if (rank.rank == 1) {
      rank.cuda->fail("launch");
    }
    const Status called = call_last(rank, 1, requested(rank, Collective::kAllReduce, "ring"));
    EXPECT_EQ(called.code(), rank.rank == 1 ? Code::kSystemError : Code::kOk) << called.message();
    EXPECT_EQ(failure_of(rank).code(), rank.rank == 1 ? Code::kSystemError : Code::kAborted);
    rank.finish();
  });
}

// What the kernels do here they do without P2P as well; staging buffers lie elsewhere then.
TEST_F(SteppingGpus, RunThroughHostMemoryWhereNothingElseIsThere) {
  options_.nvlink = false;
  comm_config_.device = "cuda";
  run([](Rank& rank) {
    fill(rank, kCount, kCount);
    for (const std::string algorithm : {"ring", "hierarchical", "hierarchical_sliced"}) {
      Operation op = requested(rank, Collective::kAllReduce, algorithm);
      op.request.protocol = "slots";
      expect_ok(rank.call(op));
      rank.finish();
      check_sum(rank, algorithm);
    }
  });
}

TEST_F(SteppingGpus, LeaveAtTheDeadline) {
  options_.deadline_s = 1;
  run([this](Rank& rank) {
    fill(rank, kCount, kCount);
    leave_at_the_deadline(rank, requested(rank, Collective::kAllReduce, "ring"));
  });
}

TEST_F(SteppingGpus, LeaveWhenTheyAreAborted) {
  run([this](Rank& rank) {
    fill(rank, kCount, kCount);
    if (rank.rank != 3) {
      expect_ok(rank.call(requested(rank, Collective::kAllReduce, "ring")));
    }
    meet();
    rank.comm->abort();
    rank.finish();
    if (rank.rank != 3) {
      EXPECT_FALSE(failure_of(rank).ok());
    }
  });
}

TEST_F(SteppingGpus, NameCallsThatDiffer) {
  options_.deadline_s = 10;
  run([](Rank& rank) {
    fill(rank, kCount, kCount);
    expect_ok(rank.call(
        requested(rank, Collective::kAllReduce, rank.rank == 2 ? "halving_doubling" : "ring")));
    const Status status = failure_of(rank);
    EXPECT_EQ(status.code(), Code::kMismatch) << status.message();
    rank.finish();
  });
}

}  // namespace
}  // namespace sennit::tests
