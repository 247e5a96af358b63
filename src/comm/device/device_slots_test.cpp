// Calls in packets without flags of their own (protocol slots), of ranks with fake GPUs that reach
// each other's memory.
#include "comm/device/testing/fake_gpus.hpp"
#include "exec/sm/testing/fake_direct_kernel.hpp"
#include "exec/sm/testing/fake_pairs_kernel.hpp"
#include "schedule/problem.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace sennit::tests {
namespace {

struct Case {
  Collective collective = Collective::kAllReduce;
  std::string algorithm{};
};

class SlottingGpus : public FakeGpus {
 protected:
  SlottingGpus() { options_.deadline_s = 20; }

  static Problem problem_of(Collective collective) {
    const bool rooted = is_rooted(collective);
    return {.collective = collective, .ranks = kRanks, .root = rooted ? 2 : 0, .cut = 1};
  }

  static Operation prepare(const Rank& rank, const Case& c, std::int64_t count) {
    const Problem problem = problem_of(c.collective);
    Operation op;
    op.collective = c.collective;
    op.count = count;
    op.root = problem.root;
    const std::int64_t in = problem.input_blocks(rank.rank) * count;
    std::byte* const send = rank.allocate(in + 16);
    if (in > 0) {
      std::memcpy(send, contents(rank.rank, in).data(), static_cast<std::size_t>(in));
    }
    op.send = send;
    op.recv = rank.allocate(problem.output_blocks(rank.rank) * count + 16);
    op.request.protocol = "slots";
    op.request.algorithm = c.algorithm;
    return op;
  }

  // The fake kernel adds bytes.
  static void check(const Rank& rank, const Operation& op) {
    const Problem problem = problem_of(op.collective);
    for (int b = 0; b < problem.output_blocks(rank.rank); ++b) {
      const auto from = problem.expected(rank.rank, b);
      for (std::int64_t i = 0; i < op.count; ++i) {
        int sum = 0;
        for (const int source : from.ranks) {
          sum += std::to_integer<int>(content(source, from.index * op.count + i));
        }
        const std::byte found = static_cast<const std::byte*>(op.recv)[b * op.count + i];
        ASSERT_EQ(std::to_integer<int>(found), sum & 0xff)
            << name(op.collective) << " " << op.request.algorithm << " of " << op.count << ": rank "
            << rank.rank << ", block " << b << ", byte " << i;
      }
    }
  }
};

const std::vector<Case> kFamily = {{Collective::kAllReduce, "one_shot"},
                                   {Collective::kAllReduce, "two_shot"},
                                   {Collective::kReduceScatter, "direct"},
                                   {Collective::kReduce, "direct"},
                                   {Collective::kReduce, "scatter_gather"},
                                   {Collective::kAllGather, "direct"},
                                   {Collective::kAllToAll, "direct"},
                                   {Collective::kBroadcast, "direct"},
                                   {Collective::kBroadcast, "scatter_forward"},
                                   {Collective::kGather, "direct"},
                                   {Collective::kScatter, "direct"}};

// Few blocks, so that 300'001 bytes take several rounds of several steps.
TEST_F(SlottingGpus, BringEveryByteWithManyCallsInFlight) {
  options_.blocks = 3;
  run([](Rank& rank) {
    rank.cuda->run_kernels(fake_direct_kernel);
    for (const std::int64_t count : {std::int64_t{1}, std::int64_t{1023}, std::int64_t{300'001}}) {
      std::vector<Operation> calls;
      for (int turn = 0; turn < 2; ++turn) {
        for (const Case& c : kFamily) {
          calls.push_back(prepare(rank, c, count));
          const Status status = rank.call(calls.back());
          ASSERT_TRUE(status.ok()) << status.message();
        }
      }
      rank.finish();
      for (const Operation& op : calls) {
        check(rank, op);
      }
    }
  });
}

// Packets with flags and without come in turns: the rounds of a block count on.
TEST_F(SlottingGpus, TakeTurnsWithLl) {
  run([](Rank& rank) {
    rank.cuda->run_kernels(fake_direct_kernel);
    std::vector<Operation> calls;
    for (int turn = 0; turn < 12; ++turn) {
      // Off multiples of 16 bytes, so that no call has the kernel of small ones.
      calls.push_back(prepare(rank, {Collective::kAllReduce, "two_shot"}, 50'001));
      calls.back().request.protocol = turn % 3 == 1 ? "slots" : "ll";
      calls.back().recv = static_cast<std::byte*>(calls.back().recv) + 1;
      const Status status = rank.call(calls.back());
      ASSERT_TRUE(status.ok()) << status.message();
    }
    rank.finish();
    for (const Operation& op : calls) {
      check(rank, op);
    }
  });
}

// Where the watcher finds nothing else: a rank that has gone will never call.
TEST_F(SlottingGpus, LearnThatARankHasFinalized) {
  run([this](Rank& rank) {
    rank.cuda->run_kernels(fake_direct_kernel);
    const Case c{Collective::kAllReduce, "two_shot"};
    const Operation first = prepare(rank, c, 1000);
    ASSERT_TRUE(rank.call(first).ok());
    rank.finish();
    check(rank, first);
    if (rank.rank == 3) {
      rank.joined->finalize();
    } else {
      ASSERT_TRUE(rank.call(prepare(rank, c, 1000)).ok());
      const Status status = failure_of(rank);
      EXPECT_EQ(status.code(), Code::kMismatch) << status.message();
      EXPECT_NE(status.message().find("finalized"), std::string::npos) << status.message();
    }
    meet();
    rank.finish();
  });
}

// Both ways at once, so that each FIFO of a pair has packets and the words of the other direction.
TEST_F(SlottingGpus, CarryMessagesBothWays) {
  run([](Rank& rank) {
    rank.cuda->run_kernels(fake_pairs_kernel);
    constexpr std::int64_t kCount = 2'500'001;
    std::vector<DeviceComm::Call> calls;
    std::vector<std::byte*> received;
    for (int turn = 0; turn < 3; ++turn) {
      for (const bool is_send : {true, false}) {
        Operation op;
        op.collective = Collective::kSendRecv;
        op.is_send = is_send;
        op.peer = rank.rank ^ 1;
        op.count = kCount;
        op.request.protocol = "slots";
        std::byte* const buffer = rank.allocate(kCount);
        if (is_send) {
          std::memcpy(buffer, contents(rank.rank + turn, kCount).data(), kCount);
          op.send = buffer;
        } else {
          op.recv = buffer;
          received.push_back(buffer);
        }
        calls.push_back({op, rank.stream});
      }
    }
    const Status status = rank.comm->enqueue(calls);
    ASSERT_TRUE(status.ok()) << status.message();
    rank.finish();
    for (std::size_t turn = 0; turn < received.size(); ++turn) {
      const Bytes expected = contents((rank.rank ^ 1) + static_cast<int>(turn), kCount);
      ASSERT_TRUE(holds(received[turn], expected)) << "rank " << rank.rank << ", " << turn;
    }
  });
}

}  // namespace
}  // namespace sennit::tests
