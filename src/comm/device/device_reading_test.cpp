// Reductions that read the inputs of other ranks where they lie, of ranks with fake GPUs.
#include "comm/device/testing/fake_messages.hpp"
#include "exec/sm/testing/fake_pairs_kernel.hpp"
#include "exec/sm/testing/fake_reading_kernel.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>

namespace sennit::tests {
namespace {

constexpr std::int64_t kCount = 70'000;

std::byte value(int rank, std::int64_t i) {
  return static_cast<std::byte>((i * 7 + i / 251 + std::int64_t{rank} * 31) % 256);
}

std::byte sum_of(int ranks, std::int64_t i) {
  int sum = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    sum += std::to_integer<int>(value(rank, i));
  }
  return static_cast<std::byte>(sum);
}

void expect_ok(const Status& status) { ASSERT_TRUE(status.ok()) << status.message(); }

class ReadingGpus : public FakeMessages {
 protected:
  ReadingGpus() {
    prepare_ = [this](Rank& rank) { run_kernels(*rank.cuda, rank.rank); };
  }

  // Counts the launches in which all others reach the buffers of a rank.
  void run_kernels(FakeCuda& cuda, int rank) {
    cuda.run_kernels([&count = read_[static_cast<std::size_t>(rank)]](
                         const void* kernel, const void* parameters) -> std::function<void()> {
      if (kernel == sm::pairs_kernel(1, false) || is_small_pairs_kernel(kernel)) {
        return fake_pairs_kernel(kernel, parameters);
      }
      if (is_reading_kernel(kernel)) {
        count += static_cast<const sm::ReadingCall*>(parameters)->is_reached ? 1 : 0;
      }
      return fake_reading_kernel(kernel, parameters);
    });
  }
  void share_a_process() {
    shared_cuda_ = std::make_shared<FakeCuda>(cuda_options_);
    prepare_ = nullptr;
    run_kernels(*shared_cuda_, 0);
  }
  [[nodiscard]] int reads(const Rank& rank) const {
    return read_[static_cast<std::size_t>(rank.rank)];
  }

  Operation requested(const Rank& rank, Collective collective, std::int64_t count = kCount) const {
    Operation op;
    op.collective = collective;
    op.send = rank.send;
    op.recv = rank.recv;
    op.count = count;
    op.dtype = Dtype::kUint8;
    op.op = ReduceOp::kSum;
    op.request.protocol = "direct_get";
    return op;
  }
  // Of a reduce_scatter a count is that of one block.
  [[nodiscard]] std::int64_t inputs(const Operation& op) const {
    return op.collective == Collective::kReduceScatter ? op.count * ranks_ : op.count;
  }
  // Buffers whose first `skip` bytes are not used.
  void fill(Rank& rank, std::int64_t inputs, std::int64_t outputs, std::int64_t skip = 0) const {
    rank.send = rank.allocate(inputs + skip) + skip;
    rank.recv = rank.allocate(outputs + skip) + skip;
    write(rank, inputs);
  }
  void write(const Rank& rank, std::int64_t count) const {
    for (std::int64_t i = 0; i < count; ++i) {
      rank.send[i] = value(rank.rank, i);
    }
  }
  void check(const Rank& rank, const Operation& op) const {
    const bool is_scattered = op.collective == Collective::kReduceScatter;
    const auto* const out = static_cast<const std::byte*>(op.recv);
    for (std::int64_t i = 0; i < op.count; ++i) {
      ASSERT_EQ(out[i], sum_of(ranks_, is_scattered ? rank.rank * op.count + i : i))
          << "rank " << rank.rank << ", element " << i;
    }
  }
  // No rank writes a buffer again before all are done.
  void call_and_meet(const Rank& rank, const Operation& op) {
    expect_ok(rank.call(op));
    rank.finish();
    meet();
  }
  // Buffers are mapped one after the other, so after this all ranks reach both of all others.
  void map_buffers(const Rank& rank, const Operation& op) {
    for (int i = 0; i < 4; ++i) {
      call_and_meet(rank, op);
    }
  }

 private:
  std::array<std::atomic<int>, kRanks> read_{};
};

TEST_F(ReadingGpus, ReduceWhatIsMappedAndTheRestByPackets) {
  for (const int ranks : {2, kRanks}) {
    ranks_ = ranks;
    run([this](Rank& rank) {
      for (const std::int64_t count : {kCount, std::int64_t{16 * 1024}, std::int64_t{16}}) {
        for (const Collective collective : {Collective::kAllReduce, Collective::kReduceScatter}) {
          fill(rank, count * ranks_, count);
          const Operation op = requested(rank, collective, count);
          const int before = reads(rank);
          for (int i = 0; i < 5; ++i) {
            std::memset(rank.recv, 0xa5, static_cast<std::size_t>(count));
            meet();
            call_and_meet(rank, op);
            check(rank, op);
            EXPECT_TRUE(i > 0 || reads(rank) == before) << "nobody reaches it yet";
          }
          EXPECT_GT(reads(rank), before);
        }
      }
    });
  }
}

// Parts then begin within a unit of 16 bytes, the same in all buffers.
TEST_F(ReadingGpus, OfAnyLength) {
  run([this](Rank& rank) {
    for (const std::int64_t count : {1, 3, 17, 1001, 66'001}) {
      fill(rank, count, count);
      const Operation op = requested(rank, Collective::kAllReduce, count);
      map_buffers(rank, op);
      const int before = reads(rank);
      std::memset(rank.recv, 0xa5, static_cast<std::size_t>(count));
      meet();
      call_and_meet(rank, op);
      check(rank, op);
      EXPECT_EQ(reads(rank), before + 1);
    }
  });
}

// Of the second rank the part is not aligned in its output: all take packets.
TEST_F(ReadingGpus, TakePacketsWhereBlocksAreNoUnits) {
  run([this](Rank& rank) {
    constexpr std::int64_t kOdd = 10'004;
    fill(rank, kOdd * kRanks, kOdd);
    const Operation op = requested(rank, Collective::kReduceScatter, kOdd);
    map_buffers(rank, op);
    check(rank, op);
    EXPECT_EQ(reads(rank) == 0, rank.rank % 4 != 0);
  });
}

TEST_F(ReadingGpus, InPlace) {
  run([this](Rank& rank) {
    for (const Collective collective : {Collective::kAllReduce, Collective::kReduceScatter}) {
      fill(rank, kCount * kRanks, 1);
      Operation op = requested(rank, collective);
      op.recv =
          collective == Collective::kReduceScatter ? rank.send + rank.rank * kCount : rank.send;
      for (int i = 0; i < 5; ++i) {
        write(rank, inputs(op));
        meet();
        call_and_meet(rank, op);
        check(rank, op);
      }
      EXPECT_GT(reads(rank), 0);
    }
  });
}

// One rank is enough for all to take packets: else some would wait for what nobody sends.
TEST_F(ReadingGpus, TakePacketsWhereABufferIsUnaligned) {
  run([this](Rank& rank) {
    fill(rank, kCount, kCount, rank.rank == 1 ? 4 : 0);
    const Operation op = requested(rank, Collective::kAllReduce);
    map_buffers(rank, op);
    std::memset(rank.recv, 0xa5, kCount);
    meet();
    call_and_meet(rank, op);
    check(rank, op);
    EXPECT_EQ(reads(rank) == 0, rank.rank == 1);
  });
}

TEST_F(ReadingGpus, OfThreadsOfOneProcess) {
  share_a_process();
  run([this](Rank& rank) {
    fill(rank, kCount, kCount);
    const Operation op = requested(rank, Collective::kAllReduce);
    call_and_meet(rank, op);
    check(rank, op);
  });
}

// The words of messages count on, whoever uses them.
TEST_F(ReadingGpus, TakeTurnsWithMessages) {
  run([this](Rank& rank) {
    fill(rank, kCount, kCount);
    const Operation op = requested(rank, Collective::kAllReduce);
    std::byte* const in = incoming(rank);
    std::byte* const out = outgoing(rank);
    for (int i = 0; i < 6; ++i) {
      call_and_meet(rank, op);
      check(rank, op);
      const Calls calls = {send(rank, next_of(rank, kRanks), out, kSmall),
                           recv(rank, previous_of(rank, kRanks), in, kSmall)};
      expect_ok(post(rank, sennit::tests::requested(calls, "direct_put")));
      rank.finish();
      ASSERT_TRUE(holds(in, contents(previous_of(rank, kRanks), kSmall)));
      meet();
    }
    EXPECT_GT(reads(rank), 0);
  });
}

TEST_F(ReadingGpus, AreReplayedFromGraphs) {
  run([this](Rank& rank) {
    fill(rank, kCount, kCount);
    const Operation op = requested(rank, Collective::kAllReduce);
    map_buffers(rank, op);
    rank.cuda->begin_capture(rank.stream);
    expect_ok(rank.call(op));
    const FakeGraph graph = take(rank.cuda->end_capture(rank.stream));
    for (int replay = 0; replay < 4; ++replay) {
      std::memset(rank.recv, 0xa5, kCount);
      meet();
      graph.launch(rank.stream);
      rank.finish();
      check(rank, op);
      meet();
    }
  });
}

// As the profile says: between so many ranks, from that size on, by so many thread blocks.
TEST_F(ReadingGpus, ByThemselvesWhereTheyPay) {
  ranks_ = 2;
  options_.profile->reads = {{Collective::kAllReduce, 2, kCount, 3}};
  run([this](Rank& rank) {
    fill(rank, kCount * 2, kCount);
    Operation op = requested(rank, Collective::kAllReduce);
    op.request = {};
    const auto is_by_reads = [&](const Operation& call) {
      map_buffers(rank, call);
      call_and_meet(rank, call);
      check(rank, call);
      return rank.cuda->last_shape().blocks == 3 && rank.cuda->last_shape().threads == sm::kThreads;
    };
    EXPECT_TRUE(is_by_reads(op));
    op.count -= 1;
    EXPECT_FALSE(is_by_reads(op)) << "shorter";
    op = requested(rank, Collective::kReduceScatter);
    op.request = {};
    EXPECT_FALSE(is_by_reads(op)) << "has no row";
  });
}

// Else calls whose buffers cannot be mapped would be slower than without reads.
TEST_F(ReadingGpus, HaveAllThreadBlocksForPacketsWhereTheyAreNotReached) {
  constexpr std::int64_t kLong = std::int64_t{1} << 20;
  constexpr unsigned kReaders = 2;
  ranks_ = 2;
  options_.profile->reads = {{Collective::kAllReduce, 2, 1, kReaders}};
  run([&](Rank& rank) {
    fill(rank, kLong, kLong);
    Operation op = requested(rank, Collective::kAllReduce, kLong);
    call_and_meet(rank, op);
    check(rank, op);
    EXPECT_GT(rank.cuda->last_shape().blocks, kReaders);
    map_buffers(rank, op);
    call_and_meet(rank, op);
    EXPECT_EQ(rank.cuda->last_shape().blocks, kReaders);
    if (rank.rank == 1) {
      fill(rank, kLong, kLong);
      op = requested(rank, Collective::kAllReduce, kLong);
    }
    std::memset(rank.recv, 0xa5, static_cast<std::size_t>(kLong));
    meet();
    call_and_meet(rank, op);
    check(rank, op);
    EXPECT_EQ(rank.cuda->last_shape().blocks == kReaders, rank.rank == 0) << "each for itself";
  });
}

TEST_F(ReadingGpus, RefuseARequestThatCannotBeMet) {
  run([this](Rank& rank) {
    fill(rank, kCount * kRanks, kCount * kRanks);
    const auto expect_refused = [&](const Operation& op, const std::string& why) {
      const Status status = rank.call(op);
      EXPECT_EQ(status.code(), Code::kUnsupported);
      EXPECT_NE(status.message().find(why), std::string::npos) << status.message();
    };
    expect_refused(requested(rank, Collective::kAllGather), "all_reduce and reduce_scatter");
    expect_refused(requested(rank, Collective::kReduce), "all_reduce and reduce_scatter");
    Operation op = requested(rank, Collective::kAllReduce);
    op.op = ReduceOp::kPremulSum;
    expect_refused(op, "premul_sum");
    op = requested(rank, Collective::kAllReduce);
    op.request.algorithm = "one_shot";
    expect_refused(op, "algorithm two_shot has");
    EXPECT_EQ(rank.launches(), 0);
  });
}

TEST_F(ReadingGpus, LeaveAtTheDeadline) {
  options_.deadline_s = 2;
  run([this](Rank& rank) {
    fill(rank, kCount, kCount);
    leave_at_the_deadline(rank, requested(rank, Collective::kAllReduce));
  });
}

}  // namespace
}  // namespace sennit::tests
