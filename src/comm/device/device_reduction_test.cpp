// Reductions by copy engines, of ranks with fake GPUs.
#include "comm/device/testing/fake_gpus.hpp"
#include "exec/stream/reduction.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <vector>

namespace sennit::tests {
namespace {

constexpr std::int64_t kCount = 100'003;
// Not exact in float: another order of addition gives other bits.
float value(int rank, std::int64_t i) {
  return static_cast<float>((i * 37 + std::int64_t{rank} * 1001) % 977 - 400) / 7.0F;
}

float factor(int rank) { return 0.3F + static_cast<float>(rank); }

// What a kernel would do with floats.
std::function<void()> reduce_floats(const void* /*kernel*/, const void* parameters) {
  return [call = *static_cast<const stream::ReductionCall*>(parameters)] {
    for (std::int64_t at = 0; at < call.bytes; at += 4) {
      float sum = 0;
      for (int i = 0; i < call.operand_count; ++i) {
        float operand = 0;
        float scalar = 0;
        std::memcpy(&operand, call.operands[static_cast<std::size_t>(i)].data + at, 4);
        std::memcpy(&scalar, call.operands[static_cast<std::size_t>(i)].scalar.data(), 4);
        operand *= scalar;
        sum = i == 0 ? operand : sum + operand;
      }
      for (int i = 0; i < call.output_count; ++i) {
        std::memcpy(call.outputs[static_cast<std::size_t>(i)] + at, &sum, 4);
      }
    }
  };
}

float expected(std::int64_t i, int ranks) {
  float sum = value(0, i) * factor(0);
  for (int rank = 1; rank < ranks; ++rank) {
    sum += value(rank, i) * factor(rank);
  }
  return sum;
}

void expect_ok(const Status& status) { ASSERT_TRUE(status.ok()) << status.message(); }

class StagedReductions : public FakeGpus {
 protected:
  static Operation reduction(const Rank& rank, Collective collective, std::int64_t count) {
    Operation op;
    op.collective = collective;
    op.send = rank.send;
    op.recv = rank.recv;
    op.count = count;
    op.dtype = Dtype::kFloat32;
    op.op = ReduceOp::kPremulSum;
    const float scalar = factor(rank.rank);
    std::memcpy(op.scaling.scalar.data(), &scalar, sizeof(scalar));
    return op;
  }

  static Operation requested(Operation operation) {
    operation.request.protocol = "copy_engines";
    operation.request.algorithm =
        operation.collective == Collective::kAllReduce ? "two_shot" : "direct";
    return operation;
  }

  static void fill_floats(Rank& rank, std::int64_t count, bool in_place) {
    rank.send = rank.allocate(count * 4);
    rank.recv = in_place ? rank.send : rank.allocate(count * 4);
    refill(rank, count);
  }
  static void refill(const Rank& rank, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      const float v = value(rank.rank, i);
      std::memcpy(rank.send + i * 4, &v, 4);
    }
  }

  static void check_sums(const Rank& rank, std::int64_t count, std::int64_t first = 0) {
    for (std::int64_t i = 0; i < count; ++i) {
      float found = 0;
      std::memcpy(&found, rank.recv + i * 4, 4);
      ASSERT_EQ(std::bit_cast<std::uint32_t>(found),
                std::bit_cast<std::uint32_t>(expected(first + i, kRanks)))
          << "rank " << rank.rank << ", element " << i;
    }
  }

  void take_turns(const std::function<Operation(Operation)>& asked) {
    for (const bool one_queue : {false, true}) {
      cuda_options_.one_queue = one_queue;
      run([&](Rank& rank) {
        rank.cuda->run_kernels(reduce_floats);
        std::vector<Operation> calls;
        for (int i = 0; i < 24; ++i) {
          const std::int64_t count = i % 5 == 0 ? 9'001 : 1'003;
          fill_floats(rank, count * kRanks, false);
          constexpr std::array kTurns = {
              Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduce};
          Operation op = asked(reduction(rank, kTurns[static_cast<std::size_t>(i) % 3], count));
          op.root = i % kRanks;
          if (i % 4 == 3) {
            op.collective = Collective::kAllGather;
            op.request.algorithm = op.request.protocol.empty() ? "" : "direct";
          }
          calls.push_back(op);
          expect_ok(rank.call(op));
        }
        rank.finish();
        for (const Operation& op : calls) {
          check_result(rank, op);
        }
      });
    }
  }

  // Of a call of kCount elements, twice in a graph.
  static void check_replays(const Rank& rank, const Operation& op) {
    expect_ok(rank.call(op));
    rank.finish();
    rank.cuda->begin_capture(rank.stream);
    expect_ok(rank.call(op));
    expect_ok(rank.call(op));
    const FakeGraph graph = take(rank.cuda->end_capture(rank.stream));
    for (int i = 0; i < 5; ++i) {
      std::memset(rank.recv, 0xa5, kCount * 4);
      graph.launch(rank.stream);
      rank.finish();
      check_sums(rank, kCount);
    }
  }

  static void check_result(Rank& rank, const Operation& op) {
    rank.recv = static_cast<std::byte*>(op.recv);
    if (op.collective == Collective::kAllGather) {
      for (int source = 0; source < kRanks; ++source) {
        float found = 0;
        std::memcpy(&found, rank.recv + (source * op.count + op.count - 1) * 4, 4);
        EXPECT_EQ(found, value(source, op.count - 1));
      }
    } else if (op.collective != Collective::kReduce || op.root == rank.rank) {
      const bool is_part = op.collective == Collective::kReduceScatter;
      check_sums(rank, op.count, is_part ? rank.rank * op.count : 0);
    }
  }
};

TEST_F(StagedReductions, AddUpInTheOrderOfRanksWithTheScalarOfEach) {
  run([](Rank& rank) {
    rank.cuda->run_kernels(reduce_floats);
    fill_floats(rank, kCount, rank.rank % 2 == 0);
    expect_ok(rank.call(requested(reduction(rank, Collective::kAllReduce, kCount))));
    rank.finish();
    check_sums(rank, kCount);
  });
}

TEST_F(StagedReductions, ScatterTheirSums) {
  run([](Rank& rank) {
    rank.cuda->run_kernels(reduce_floats);
    fill_floats(rank, kCount * kRanks, false);
    expect_ok(rank.call(requested(reduction(rank, Collective::kReduceScatter, kCount))));
    rank.finish();
    check_sums(rank, kCount, rank.rank * kCount);
  });
}

TEST_F(StagedReductions, ReduceToEveryRoot) {
  run([](Rank& rank) {
    rank.cuda->run_kernels(reduce_floats);
    fill_floats(rank, kCount, false);
    for (int root = 0; root < kRanks; ++root) {
      Operation op = requested(reduction(rank, Collective::kReduce, kCount));
      op.root = root;
      expect_ok(rank.call(op));
      rank.finish();
      if (rank.rank == root) {
        check_sums(rank, kCount);
      }
    }
  });
}

TEST_F(StagedReductions, AllTakeKernelsWhenOneHasItsScalarOnTheDevice) {
  run([](Rank& rank) {
    fill_floats(rank, kCount, true);
    Operation op = requested(reduction(rank, Collective::kAllReduce, kCount));
    if (rank.rank == 1) {
      op.scalar_on_device = rank.allocate(4);
    }
    EXPECT_EQ(rank.call(op).code(), Code::kUnsupported);
  });
}

TEST_F(StagedReductions, AllTakeKernelsWhenOneHasNoRoomToStage) {
  run([](Rank& rank) {
    fill_floats(rank, kCount, true);
    const Operation op = requested(reduction(rank, Collective::kAllReduce, kCount));
    if (rank.rank == 2) {
      rank.cuda->fail("allocate");
    }
    EXPECT_EQ(rank.call(op).code(), Code::kUnsupported);
    rank.cuda->run_kernels(reduce_floats);
    expect_ok(rank.call(op));
    rank.finish();
    check_sums(rank, kCount);
  });
}

// By their size. Who has no room does not look for it in every call.
TEST_F(StagedReductions, ReduceByCopyEnginesFromSomeSizeOn) {
  options_.profile->all_reduce_copies_from_bytes = kCount * 4;
  run([this](Rank& rank) {
    fill_floats(rank, kCount, true);
    const Operation op = reduction(rank, Collective::kAllReduce, kCount);
    if (rank.rank == 2) {
      rank.cuda->fail("allocate");
    }
    const int at_first = rank.cuda->calls("copy_async");
    for (int i = 0; i < 3; ++i) {
      expect_ok(rank.call(op));
      rank.finish();
      EXPECT_EQ(rank.cuda->calls("copy_async"), at_first) << "by kernels";
    }
    rank.cuda->run_kernels(reduce_floats);
    expect_ok(rank.call(requested(op)));
    rank.finish();
    check_sums(rank, kCount);
    refill(rank, kCount);
    meet();
    const int before = rank.cuda->calls("copy_async");
    expect_ok(rank.call(op));
    rank.finish();
    EXPECT_GT(rank.cuda->calls("copy_async"), before) << "there is room now";
    check_sums(rank, kCount);
  });
}

// Words, staging memory and streams serve one call after the other, whatever these are.
TEST_F(StagedReductions, TakeTurnsWithOtherCollectives) {
  take_turns([](Operation operation) { return requested(std::move(operation)); });
}

TEST_F(StagedReductions, NothingIsStagedWhileAStreamCaptures) {
  run([](Rank& rank) {
    rank.cuda->run_kernels(reduce_floats);
    fill_floats(rank, kCount, true);
    // All have mapped the buffers, but nobody has reduced.
    Operation gather = all_gather(rank, 16);
    gather.recv = rank.allocate(16 * kRanks);
    gather.request.protocol = "copy_engines";
    expect_ok(rank.call(gather));
    rank.finish();
    const Operation op = requested(reduction(rank, Collective::kAllReduce, kCount));
    rank.cuda->begin_capture(rank.stream);
    EXPECT_EQ(rank.call(op).code(), Code::kUnsupported);
    ASSERT_TRUE(rank.cuda->end_capture(rank.stream).ok());
    expect_ok(rank.call(op));
    rank.finish();
    rank.cuda->begin_capture(rank.stream);
    expect_ok(rank.call(op));
    const FakeGraph graph = take(rank.cuda->end_capture(rank.stream));
    refill(rank, kCount);
    graph.launch(rank.stream);
    rank.finish();
    check_sums(rank, kCount);
  });
}

TEST_F(StagedReductions, GiveBackTheMemoryThatStages) {
  run([](Rank& rank) {
    fill_floats(rank, kCount, true);
    expect_ok(rank.call(requested(reduction(rank, Collective::kAllReduce, kCount))));
    rank.finish();
    EXPECT_TRUE(rank.cuda->destroy_stream(rank.stream).ok());
    EXPECT_TRUE(rank.cuda->release(rank.send).ok());
    rank.comm.reset();
    EXPECT_EQ(rank.cuda->left_over(), 0);
  });
}

// Rank 0 sums, and some of the copies to and from it go through rings in host memory.
class SharedCopies : public StagedReductions {
 protected:
  SharedCopies() {
    comm_config_.device = "cuda";
    comm_config_.host_slot_bytes = kSlot;
    comm_config_.host_ring_bytes = 4 * *comm_config_.host_slot_bytes;
  }

  static Operation shared(Operation operation, int percent) {
    operation.request.algorithm =
        operation.collective == Collective::kAllReduce ? "shared_buffer" : "direct";
    operation.request.protocol = "copy_engines";
    operation.request.path = fmt::format("nvlink+host:{}", percent);
    return operation;
  }
};

// Whole vectors, also of more than a ring holds: 0, 1, 2 and 3 of 3 copies each way.
TEST_F(SharedCopies, GoTheWayOfTheirMember) {
  run([this](Rank& rank) {
    rank.cuda->run_kernels(reduce_floats);
    for (const std::int64_t count : {std::int64_t{1}, std::int64_t{1003}, kCount}) {
      for (const int percent : {0, 30, 50, 100}) {
        for (const bool in_place : {false, true}) {
          fill_floats(rank, count, in_place);
          expect_ok(rank.call(shared(reduction(rank, Collective::kAllReduce, count), percent)));
          rank.finish();
          check_sums(rank, count);
        }
      }
    }
  });
}

// Rings are empty between calls, whatever goes through them next.
TEST_F(SharedCopies, TakeTurnsWithOtherCallsThroughTheHost) {
  for (const bool one_queue : {false, true}) {
    cuda_options_.one_queue = one_queue;
    run([](Rank& rank) {
      rank.cuda->run_kernels(reduce_floats);
      std::vector<Operation> calls;
      for (int i = 0; i < 24; ++i) {
        const std::int64_t count = i % 5 == 0 ? 9'001 : 1'003;
        fill_floats(rank, count * kRanks, false);
        const bool is_gather = i % 3 == 2;
        const Operation op =
            reduction(rank, is_gather ? Collective::kAllGather : Collective::kAllReduce, count);
        calls.push_back(shared(op, i % 4 * 33));
        if (is_gather) {
          calls.back().request.path = "host";
          calls.back().request.protocol.clear();
        }
        expect_ok(rank.call(calls.back()));
      }
      rank.finish();
      for (const Operation& op : calls) {
        check_result(rank, op);
      }
    });
  }
}

TEST_F(SharedCopies, AreReplayedFromGraphs) {
  run([](Rank& rank) {
    rank.cuda->run_kernels(reduce_floats);
    fill_floats(rank, kCount, false);
    const Operation op = shared(reduction(rank, Collective::kAllReduce, kCount), 60);
    check_replays(rank, op);
  });
}

// The same where a GPU runs the ranks in turn, and would have to change to each that copies.
class SharedCopiesInTurn : public SharedCopies {
 protected:
  SharedCopiesInTurn() { devices_ = {0, 0, 0, 0}; }

  static Operation within(Operation operation, int percent) {
    operation = shared(std::move(operation), percent);
    operation.request.protocol.clear();
    operation.request.path = fmt::format("device+host:{}", percent);
    return operation;
  }
};

TEST_F(SharedCopiesInTurn, AreTheLeadersButForThoseThroughTheHost) {
  run([this](Rank& rank) {
    rank.cuda->run_kernels(reduce_floats);
    for (const std::int64_t count : {std::int64_t{1}, std::int64_t{1003}, kCount}) {
      for (const int percent : {0, 30, 50, 100}) {
        for (const bool in_place : {false, true, rank.rank % 2 == 0}) {
          fill_floats(rank, count, in_place);
          const int copied = rank.cuda->calls("copy_async");
          const Operation op = within(reduction(rank, Collective::kAllReduce, count), percent);
          expect_ok(rank.call(op));
          rank.finish();
          check_sums(rank, count);
          const int through_host = copies_through_host(kRanks, percent);
          const bool is_through_host = rank.rank >= kRanks - through_host;
          // The leader pulls, puts, empties rings, and fills its own once for all.
          const int of_leader = 2 * (kRanks - 1) - (through_host > 0 ? through_host - 1 : 0);
          const int of_member = is_through_host ? 2 : 0;  // into its ring, out of the leader's
          if (count < kCount) {                           // in one round
            EXPECT_EQ(rank.cuda->calls("copy_async") - copied,
                      rank.rank == 0 ? of_leader : of_member);
          }
        }
      }
    }
  });
}

TEST_F(SharedCopiesInTurn, AreReplayedFromGraphs) {
  run([this](Rank& rank) {
    rank.cuda->run_kernels(reduce_floats);
    fill_floats(rank, kCount, false);
    check_replays(rank, within(reduction(rank, Collective::kAllReduce, kCount), 30));
  });
}

TEST_F(SharedCopiesInTurn, AreLeftAtTheDeadline) {
  options_.deadline_s = 2;
  run([this](Rank& rank) {
    rank.cuda->run_kernels(reduce_floats);
    fill_floats(rank, kCount, false);
    const Operation op = within(reduction(rank, Collective::kAllReduce, kCount), 30);
    expect_ok(rank.call(op));
    rank.finish();
    meet();
    leave_at_the_deadline(rank, op);
  });
}

TEST_F(SharedCopiesInTurn, HaveNoOtherPathThanTheirs) {
  run([this](Rank& rank) {
    fill_floats(rank, 8, false);
    Operation op = within(reduction(rank, Collective::kAllReduce, 8), 0);
    op.request.path = "nvlink+host:50";
    const Status refused = rank.call(op);
    EXPECT_EQ(refused.code(), Code::kUnsupported);
    EXPECT_NE(refused.message().find("request device"), std::string::npos) << refused.message();
  });
}

// One GPU runs the kernels of all ranks in turn, so none may wait there for another's.
class SumsInTurn : public StagedReductions {
 protected:
  SumsInTurn() { devices_ = {0, 0, 0, 0}; }
};

// And of none but the leader, for whom the GPU would have to change from rank to rank.
TEST_F(SumsInTurn, AreTheLeadersAlone) {
  run([this](Rank& rank) {
    rank.cuda->run_kernels(reduce_floats);
    for (const std::int64_t count : {std::int64_t{1}, std::int64_t{1003}, kCount}) {
      for (const bool in_place : {false, true, rank.rank % 2 == 0}) {
        fill_floats(rank, count, in_place);
        const int launched = rank.launches();
        const int copied = rank.cuda->calls("copy_async");
        expect_ok(rank.call(reduction(rank, Collective::kAllReduce, count)));
        rank.finish();
        check_sums(rank, count);
        EXPECT_EQ(rank.launches() - launched, rank.rank == 0 ? 1 : 0);
        EXPECT_EQ(rank.cuda->calls("copy_async"), copied);
      }
    }
  });
}

TEST_F(SumsInTurn, TakeTurnsWithOtherCollectives) {
  take_turns([](Operation operation) { return operation; });
}

// A member may write its input when its call has ended.
TEST_F(SumsInTurn, AreReplayedFromGraphs) {
  run([this](Rank& rank) {
    rank.cuda->run_kernels(reduce_floats);
    fill_floats(rank, kCount, false);
    const Operation op = reduction(rank, Collective::kAllReduce, kCount);
    check_replays(rank, op);
  });
}

TEST_F(SumsInTurn, AreLeftAtTheDeadline) {
  options_.deadline_s = 2;
  run([this](Rank& rank) {
    rank.cuda->run_kernels(reduce_floats);
    fill_floats(rank, kCount, false);
    const Operation op = reduction(rank, Collective::kAllReduce, kCount);
    expect_ok(rank.call(op));
    rank.finish();
    meet();
    leave_at_the_deadline(rank, op);
  });
}

}  // namespace
}  // namespace sennit::tests
