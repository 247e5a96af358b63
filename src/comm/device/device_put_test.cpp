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

void add_floats(std::byte* sum, const std::byte* operand, std::int64_t count) {
  for (std::int64_t at = 0; at < count; at += 4) {
    float a = 0;
    float b = 0;
    std::memcpy(&a, sum + at, 4);
    std::memcpy(&b, operand + at, 4);
    a += b;
    std::memcpy(sum + at, &a, 4);
  }
}

std::function<void()> put_floats(const void* /*kernel*/, const void* parameters) {
  return [call = *static_cast<const sm::PutCall*>(parameters)] {
    sm::FakePut(call, add_floats).run();
  };
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

TEST_F(PuttingGpus, ReduceOutOfTheInputsOfOthersAndIntoTheirOutputs) {
  run([](Rank& rank) {
    rank.cuda->run_kernels(put_floats);
    fill(rank, kCount, kCount, rank.rank == 1);
    expect_ok(rank.call(wished(rank, Collective::kAllReduce, kCount)));
    rank.finish();
    EXPECT_EQ(rank.launches(), 1);
    for (std::int64_t i = 0; i < kCount; ++i) {
      const float sum = value(0, i) + value(1, i) + value(2, i) + value(3, i);
      ASSERT_EQ(found(rank, i), sum) << "rank " << rank.rank << ", element " << i;
    }
  });
}

TEST_F(PuttingGpus, MoveBlocksStraightToWhereTheyBelong) {
  run([](Rank& rank) {
    rank.cuda->run_kernels(put_floats);
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
    rank.cuda->run_kernels(put_floats);
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
  run([](Rank& rank) {
    rank.cuda->run_kernels(put_floats);
    fill(rank, kCount, kCount * kRanks, false);
    const Operation op = wished(rank, Collective::kAllGather, kCount);
    expect_ok(rank.call(op));  // maps the buffers
    rank.cuda->begin_capture(rank.stream);
    expect_ok(rank.call(op));
    const FakeGraph graph = take(rank.cuda->end_capture(rank.stream));
    for (int replay = 0; replay < 5; ++replay) {
      graph.launch(rank.stream);
    }
    rank.finish();
    for (std::int64_t i = 0; i < kCount * kRanks; ++i) {
      ASSERT_EQ(found(rank, i), value(static_cast<int>(i / kCount), i % kCount));
    }
  });
}

// Then the call is one of packets, on all ranks alike, which the kernel here does not know.
std::function<void()> count_packets(const void* /*kernel*/, const void* /*parameters*/) {
  return [] {};
}

TEST_F(PuttingGpus, LeaveToPacketsWhatTheyMayNot) {
  options_.puts_from_bytes = 1;
  run([](Rank& rank) {
    rank.cuda->run_kernels(count_packets);
    fill(rank, kCount * kRanks, kCount * kRanks, true);
    Operation in_place = wished(rank, Collective::kAllToAll, kCount);
    in_place.wishes = {};
    expect_ok(rank.call(in_place));

    fill(rank, kCount, kCount * kRanks, false);
    Operation odd = wished(rank, Collective::kAllGather, kCount - 1);
    odd.wishes = {};
    expect_ok(rank.call(odd));

    Operation one_is_odd = wished(rank, Collective::kAllGather, kCount - 4);
    one_is_odd.wishes = {};
    one_is_odd.send = rank.send + (rank.rank == 3 ? 4 : 0);
    expect_ok(rank.call(one_is_odd));
    rank.finish();
    EXPECT_EQ(rank.launches(), 3);
  });
}

TEST_F(PuttingGpus, AreNotForMessages) {
  run([](Rank& rank) {
    fill(rank, kCount, kCount, false);
    Operation op = wished(rank, Collective::kSendRecv, kCount);
    op.is_send = rank.rank % 2 == 0;
    op.peer = rank.rank ^ 1;
    const Status status = rank.call(op);
    EXPECT_EQ(status.code(), Code::kUnsupported);
    EXPECT_NE(status.message().find("direct_put"), std::string::npos) << status.message();
  });
}

}  // namespace
}  // namespace sennit::tests
