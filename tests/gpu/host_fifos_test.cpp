// Calls that go through pinned host memory alone, as where GPUs do not reach each other
// (SENNIT_PATHS=host): every byte of every output compared with the host's arithmetic. Ranks share
// a GPU where there are fewer GPUs than ranks.
#include "device_ranks.hpp"

#include <array>
#include <thread>
#include <vector>

namespace sennit::tests {
namespace {

constexpr std::array kCollectives = {Collective::kAllReduce,
                                     Collective::kReduce,
                                     Collective::kReduceScatter,
                                     Collective::kBroadcast,
                                     Collective::kAllGather,
                                     Collective::kAllToAll,
                                     Collective::kGather,
                                     Collective::kScatter};

class WithoutPeers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device_count() == 0) {
      GTEST_SKIP() << "gpu1: needs one GPU";
    }
    setenv("SENNIT_PATHS", "host", 1);
  }
  void TearDown() override {
    unsetenv("SENNIT_PATHS");
    unsetenv("SENNIT_COPY_ENGINES");
  }
};

class WithoutPeersByRanks : public WithoutPeers, public ::testing::WithParamInterface<int> {};

TEST_P(WithoutPeersByRanks, EveryCollectiveAtEverySizeAndAlignment) {
  DeviceRanks ranks(GetParam());
  for (const Collective collective : kCollectives) {
    for (const std::int64_t count : {0, 1, 3, 240, 1000, 70001}) {
      for (const bool in_place : {false, true}) {
        for (const std::size_t offset : {0, 1}) {
          const int root = static_cast<int>(count) % ranks.size();
          ranks.run({.collective = collective,
                     .count = count,
                     .root = is_rooted(collective) ? root : 0,
                     .in_place = in_place,
                     .offset = offset});
          ASSERT_FALSE(HasFailure());
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, WithoutPeersByRanks, ::testing::Values(1, 2, 3, 4, 8));

TEST_F(WithoutPeers, ManyRounds) {
  DeviceRanks ranks(4);
  for (const Collective collective : kCollectives) {
    for (int i = 0; i < 3; ++i) {
      ranks.run({.collective = collective, .count = 2'000'003, .root = 0});
      ASSERT_FALSE(HasFailure());
    }
  }
}

// Blocks go on from the rounds that calls of another protocol left them in.
TEST_F(WithoutPeers, ProtocolsTakeTurns) {
  constexpr std::array<const char*, 5> kTurns = {"ll", "slots", "slots", "ll", nullptr};
  DeviceRanks ranks(4);
  for (const Collective collective : kCollectives) {
    for (const std::int64_t count : {5, 2000, 100'003}) {
      for (const char* const protocol : kTurns) {
        const int root = static_cast<int>(count) % ranks.size();
        ranks.run({.collective = collective,
                   .count = count,
                   .root = is_rooted(collective) ? root : 0,
                   .protocol = protocol});
        ASSERT_FALSE(HasFailure()) << name(collective) << " of " << count;
      }
    }
  }
}

TEST_F(WithoutPeers, EveryTypeOfTheTable) {
  DeviceRanks ranks(3);
  for (const Dtype dtype : kDtypes) {
    for (const ReduceOp op : kReduceOps) {
      if (has_operator(dtype, op)) {
        ranks.run({.count = 5003, .dtype = dtype, .op = op});
        ASSERT_FALSE(HasFailure());
        ranks.run({.collective = Collective::kReduce,
                   .count = 5003,
                   .dtype = dtype,
                   .op = op,
                   .algorithm = "scatter_gather"});
        ASSERT_FALSE(HasFailure());
      }
    }
  }
}

// A root needs nothing from the others, so it may run ahead of them, but not too far.
TEST_F(WithoutPeers, RootsRunAhead) {
  DeviceRanks ranks(4);
  for (const std::int64_t count : {300, 300'000}) {
    const DeviceCase c{.collective = Collective::kBroadcast, .count = count};
    const std::vector<Bytes> inputs = ranks.start(c);
    for (int i = 0; i < 50; ++i) {
      for (int rank = 0; rank < ranks.size(); ++rank) {
        ASSERT_EQ(ranks[rank].call(c), SENNIT_OK) << sennit_last_error_message();
      }
    }
    ranks.finish(c, inputs);
    ASSERT_FALSE(HasFailure());
  }
}

// Every rank sends to its next, in several messages of one group.
TEST_F(WithoutPeers, SendAndReceive) {
  DeviceRanks ranks(4);
  std::mt19937_64 random(5);
  for (const std::int64_t count : {1, 1000, 3'000'001}) {
    const DeviceCase c{.collective = Collective::kAllToAll, .count = count};
    std::vector<Bytes> inputs;
    for (int rank = 0; rank < ranks.size(); ++rank) {
      inputs.push_back(random_elements(c.dtype, ranks.size() * count, random));
      ranks[rank].prepare(c, inputs.back());
    }
    ASSERT_EQ(sennit_group_start(), SENNIT_OK);
    for (int rank = 0; rank < ranks.size(); ++rank) {
      DeviceRank& r = ranks[rank];
      const auto all = static_cast<std::size_t>(count);
      const int next = (rank + 1) % ranks.size();
      const int previous = (rank + ranks.size() - 1) % ranks.size();
      for (std::size_t message = 0; message < 2; ++message) {
        const float* const send = static_cast<const float*>(r.send()) + message * all;
        float* const recv = static_cast<float*>(r.recv()) + message * all;
        ASSERT_EQ(sennit_send(send, all, SENNIT_FLOAT32, next, r.comm, r.stream, nullptr),
                  SENNIT_OK);
        ASSERT_EQ(sennit_recv(recv, all, SENNIT_FLOAT32, previous, r.comm, r.stream, nullptr),
                  SENNIT_OK);
      }
    }
    ASSERT_EQ(sennit_group_end(), SENNIT_OK) << sennit_last_error_message();
    for (int rank = 0; rank < ranks.size(); ++rank) {
      const Bytes output = ranks[rank].output(c);
      const Bytes& sent = inputs[static_cast<std::size_t>((rank + 3) % ranks.size())];
      const auto bytes = static_cast<std::ptrdiff_t>(2 * count * 4);
      ASSERT_TRUE(std::equal(output.begin(), output.begin() + bytes, sent.begin()))
          << "rank " << rank << ", " << count << " elements";
    }
  }
}

TEST_F(WithoutPeers, ReplaysAreCalls) {
  DeviceRanks ranks(std::min(4, std::max(2, device_count())));
  for (const Collective collective : kCollectives) {
    const DeviceCase c{.collective = collective, .count = 50'001};
    ranks.run(c);  // loads what a capture may not
    ranks.replay(c, 20);
    ASSERT_FALSE(HasFailure()) << name(collective);
  }
}

// Large moves leave the kernels, at a size that all ranks know.
TEST_F(WithoutPeers, CopyEnginesAndKernelsTakeTurns) {
  if (device_count() < 2) {
    GTEST_SKIP() << "gpu2: needs two GPUs";
  }
  setenv("SENNIT_COPY_ENGINES", "on", 1);
  DeviceRanks ranks(std::min(device_count(), 4));
  for (const Collective collective :
       {Collective::kAllGather, Collective::kAllReduce, Collective::kBroadcast}) {
    for (const std::int64_t count : {1000, 1'000'003}) {
      // Of those that copy engines have; kernels run the others.
      const DeviceCase c{
          .collective = collective, .count = count, .protocol = count == 1000 ? nullptr : "slots"};
      const std::vector<Bytes> inputs = ranks.prepare(c);
      {
        std::vector<std::jthread> threads;
        for (int rank = 0; rank < ranks.size(); ++rank) {
          threads.emplace_back([&, rank] {
            EXPECT_EQ(ranks[rank].call(c), SENNIT_OK) << sennit_last_error_message();
          });
        }
      }
      ranks.finish(c, inputs);
      ASSERT_FALSE(HasFailure());
    }
  }
}

TEST_F(WithoutPeers, RefuseWhatNeedsPeers) {
  DeviceRanks ranks(2);
  for (const char* protocol : {"ll128", "direct_get", "direct_put", "copy_engines"}) {
    const DeviceCase c{.count = 100, .protocol = protocol};
    ranks[0].prepare(c, Bytes(400));
    EXPECT_EQ(ranks[0].call(c), SENNIT_UNSUPPORTED) << protocol;
  }
  const DeviceCase c{.count = 100, .path = "nvlink"};
  EXPECT_EQ(ranks[0].call(c), SENNIT_UNSUPPORTED);
}

}  // namespace
}  // namespace sennit::tests
