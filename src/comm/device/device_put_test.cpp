// Calls in which kernels reach into the buffers of other ranks, of ranks with fake GPUs.
#include "comm/device/fake_gpus.hpp"
#include "exec/sm/fake_put.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>

namespace sennit::tests {
namespace {

constexpr std::int64_t kCount = 100'000;  // of float; cut by four ranks on multiples of 16 bytes

float value(int rank, std::int64_t i) {
  return static_cast<float>((i * 37 + std::int64_t{rank} * 1001) % 977 - 400) / 7.0F;
}

std::function<void()> put_bytes(const void* /*kernel*/, const void* parameters) {
  return [call = *static_cast<const sm::PutCall*>(parameters)] { sm::FakePut(call).run(); };
}

class PuttingGpus : public FakeGpus {
 protected:
  static Operation wished(const Rank& rank, Collective collective, std::int64_t count) {
    Operation op;
    op.collective = collective;
    op.send = rank.send;
    op.recv = rank.recv;
    op.count = count;
    op.dtype = Dtype::kFloat32;
    op.wishes.protocol = "direct_put";
    return op;
  }

  static void fill(Rank& rank, std::int64_t inputs, std::int64_t outputs, bool in_place) {
    rank.recv = rank.allocate(outputs * 4);
    rank.send = in_place ? rank.recv : rank.allocate(inputs * 4);
    for (std::int64_t i = 0; i < inputs; ++i) {
      const float v = value(rank.rank, i);
      std::memcpy(rank.send + i * 4, &v, 4);
    }
  }

  static float found(const Rank& rank, std::int64_t i) {
    float v = 0;
    std::memcpy(&v, rank.recv + i * 4, 4);
    return v;
  }
};

void expect_ok(const Status& status) { ASSERT_TRUE(status.ok()) << status.message(); }

TEST_F(PuttingGpus, MoveBlocksStraightToWhereTheyBelong) {
  run([](Rank& rank) {
    rank.cuda->run_kernels(put_bytes);
    fill(rank, kCount * kRanks, kCount * kRanks, false);
    for (int i = 0; i < 3; ++i) {
      expect_ok(rank.call(wished(rank, Collective::kAllToAll, kCount)));
    }
    rank.finish();
    for (std::int64_t i = 0; i < kCount * kRanks; ++i) {
      const auto source = static_cast<int>(i / kCount);
      ASSERT_EQ(found(rank, i), value(source, rank.rank * kCount + i % kCount))
          << "rank " << rank.rank << ", element " << i;
    }
  });
}

TEST_F(PuttingGpus, PassOnWhatHasArrived) {
  run([](Rank& rank) {
    rank.cuda->run_kernels(put_bytes);
    fill(rank, kCount, kCount, false);
    Operation op = wished(rank, Collective::kBroadcast, kCount);
    op.root = 2;
    op.wishes.algorithm = "scatter_forward";
    expect_ok(rank.call(op));
    rank.finish();
    for (std::int64_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(found(rank, i), value(2, i)) << "rank " << rank.rank << ", element " << i;
    }
  });
}

TEST_F(PuttingGpus, AreReplayedFromGraphs) {
  run([this](Rank& rank) {
    rank.cuda->run_kernels(put_bytes);
    fill(rank, kCount, kCount * kRanks, false);
    const Operation op = wished(rank, Collective::kAllGather, kCount);
    expect_ok(rank.call(op));  // maps the buffers
    rank.cuda->begin_capture(rank.stream);
    expect_ok(rank.call(op));
    const FakeGraph graph = take(rank.cuda->end_capture(rank.stream));
    rank.finish();
    meet();
    for (int replay = 0; replay < 5; ++replay) {
      std::memset(rank.recv, 0xa5, kCount * kRanks * 4);
      meet();
      graph.launch(rank.stream);
      rank.finish();
      for (std::int64_t i = 0; i < kCount * kRanks; ++i) {
        ASSERT_EQ(found(rank, i), value(static_cast<int>(i / kCount), i % kCount));
      }
      meet();
    }
  });
}

// Kernels of puts have all their threads, those of packets here fewer.
bool was_put(const Rank& rank) { return rank.cuda->last_shape().threads == sm::kThreads; }

// What a size would choose goes by packets then, on all ranks alike, which no kernel runs here.
TEST_F(PuttingGpus, LeaveToPacketsWhatTheyMayNot) {
  options_.puts_from_bytes = 1;
  run([](Rank& rank) {
    fill(rank, kCount * kRanks, kCount * kRanks, true);
    const auto call = [&](Operation op) {
      op.wishes = {};
      expect_ok(rank.call(op));
      return was_put(rank);
    };
    EXPECT_FALSE(call(wished(rank, Collective::kAllToAll, kCount))) << "in place";
    EXPECT_FALSE(call(wished(rank, Collective::kAllReduce, kCount)));

    fill(rank, kCount, kCount * kRanks, false);
    EXPECT_FALSE(call(wished(rank, Collective::kAllGather, kCount - 1))) << "blocks lie otherwise";
    Operation one_is_odd = wished(rank, Collective::kAllGather, kCount - 4);
    one_is_odd.send = rank.send + (rank.rank == 3 ? 4 : 0);
    EXPECT_FALSE(call(one_is_odd));
    EXPECT_TRUE(call(wished(rank, Collective::kAllGather, kCount)));
    rank.finish();
  });
}

TEST_F(PuttingGpus, RefuseAWishThatCannotBeMet) {
  run([](Rank& rank) {
    fill(rank, kCount, kCount * kRanks, false);
    const Status status = rank.call(wished(rank, Collective::kAllGather, kCount - 1));
    EXPECT_EQ(status.code(), Code::kUnsupported);
    EXPECT_NE(status.message().find("direct_put"), std::string::npos) << status.message();
  });
}

// After it has been announced, so that others wait for it on the host.
TEST_F(PuttingGpus, AreGivenUpWhereTheStreamCannotBeAsked) {
  run([](Rank& rank) {
    rank.cuda->run_kernels(put_bytes);
    fill(rank, kCount, kCount * kRanks, false);
    if (rank.rank == 1) {
      rank.cuda->fail("is_capturing");
    }
    const Status status = rank.call(wished(rank, Collective::kAllGather, kCount));
    EXPECT_EQ(status.code(), rank.rank == 1 ? Code::kSystemError : Code::kAborted)
        << status.message();
    rank.finish();
  });
}

TEST_F(PuttingGpus, LeaveAtTheDeadline) {
  options_.deadline_s = 2;
  run([this](Rank& rank) {
    rank.cuda->run_kernels(put_bytes);
    fill(rank, kCount, kCount * kRanks, false);
    leave_at_the_deadline(rank, wished(rank, Collective::kAllGather, kCount));
  });
}

TEST_F(PuttingGpus, AreNotForReductions) {
  run([](Rank& rank) {
    fill(rank, kCount, kCount, false);
    const Status sum = rank.call(wished(rank, Collective::kAllReduce, kCount));
    EXPECT_EQ(sum.code(), Code::kUnsupported);
    EXPECT_NE(sum.message().find("direct_put"), std::string::npos) << sum.message();
  });
}

}  // namespace
}  // namespace sennit::tests
