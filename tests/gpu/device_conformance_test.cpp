// Calls on GPU memory, every byte of every output compared with the host's arithmetic. Ranks share
// a GPU where there are fewer GPUs than ranks: they are threads of one process.
#include "device_ranks.hpp"

#include <array>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

namespace sennit::tests {
namespace {

constexpr std::array kMoving = {Collective::kBroadcast,
                                Collective::kAllGather,
                                Collective::kAllToAll,
                                Collective::kGather,
                                Collective::kScatter};
constexpr std::array kReducing = {
    Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter};

class DeviceConformance : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (device_count() == 0) {
      GTEST_SKIP() << "gpu1: needs one GPU";
    }
  }
};

std::vector<const char*> algorithms_of(Collective collective) {
  return collective == Collective::kAllReduce   ? std::vector{"one_shot", "two_shot"}
         : collective == Collective::kBroadcast ? std::vector{"direct", "scatter_forward"}
         : collective == Collective::kReduce    ? std::vector{"direct", "scatter_gather"}
                                                : std::vector{"direct"};
}

TEST_P(DeviceConformance, EveryCollectiveAtEverySizeAndAlignment) {
  DeviceRanks ranks(GetParam());
  std::vector<Collective> all(kMoving.begin(), kMoving.end());
  all.insert(all.end(), kReducing.begin(), kReducing.end());
  for (const Collective collective : all) {
    for (const char* algorithm : algorithms_of(collective)) {
      for (const char* protocol : {"ll", "ll128", "slots"}) {
        for (const std::int64_t count : {0, 1, 3, 240, 1000, 70001}) {
          for (const bool in_place : {false, true}) {
            for (const std::size_t offset : {0, 1}) {
              const int root = static_cast<int>(count) % ranks.size();
              ranks.run({.collective = collective,
                         .count = count,
                         .root = is_rooted(collective) ? root : 0,
                         .in_place = in_place,
                         .offset = offset,
                         .algorithm = algorithm,
                         .protocol = protocol});
              ASSERT_FALSE(HasFailure());
            }
          }
        }
      }
    }
  }
}

TEST_P(DeviceConformance, CallsInFlightDoNotDisturbEachOther) {
  DeviceRanks ranks(GetParam());
  std::mt19937 random(7);
  std::vector<Collective> all(kMoving.begin(), kMoving.end());
  all.insert(all.end(), kReducing.begin(), kReducing.end());
  for (int burst = 0; burst < 20; ++burst) {
    DeviceCase last{.collective = Collective::kAllReduce, .count = 4099};
    const std::vector<Bytes> inputs = ranks.start(last);
    for (int i = 0; i < 25; ++i) {
      // The buffers of the checked call lie where these read and write: in order, or wrong.
      DeviceCase other{.collective = all[random() % all.size()],
                       .count = static_cast<std::int64_t>(1 + random() % 500)};
      other.root = is_rooted(other.collective) ? static_cast<int>(random()) % ranks.size() : 0;
      other.root = std::abs(other.root);
      constexpr std::array kPackets = {"ll", "ll128", "slots"};
      other.protocol = kPackets[random() % kPackets.size()];
      for (int rank = 0; rank < ranks.size(); ++rank) {
        ASSERT_EQ(ranks[rank].call(other), SENNIT_OK) << sennit_last_error_message();
      }
    }
    for (int rank = 0; rank < ranks.size(); ++rank) {
      check_cuda(cudaStreamSynchronize(ranks[rank].stream));
    }
    ranks.run(last);
    ASSERT_FALSE(HasFailure());
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeviceConformance, ::testing::Values(1, 2, 3, 4, 5, 8));

TEST(DeviceTypes, EveryPairOfTheTableHasTheHostsBits) {
  if (device_count() == 0) {
    GTEST_SKIP() << "gpu1: needs one GPU";
  }
  DeviceRanks ranks(4);
  for (const Dtype dtype : kDtypes) {
    for (const ReduceOp op : kReduceOps) {
      if (!has_operator(dtype, op)) {
        continue;
      }
      for (const char* protocol : {"ll", "ll128", "slots"}) {
        if (protocol[2] != '\0' && !has_every_kernel(op)) {
          continue;
        }
        ranks.run({.count = 5003,
                   .dtype = dtype,
                   .op = op,
                   .algorithm = protocol[2] == '\0' ? "one_shot" : "two_shot",
                   .protocol = protocol});
        ASSERT_FALSE(HasFailure());
        ranks.run({.collective = Collective::kReduce,
                   .count = 5003,
                   .dtype = dtype,
                   .op = op,
                   .root = 2,
                   .algorithm = "scatter_gather",
                   .protocol = protocol});
        ASSERT_FALSE(HasFailure());
      }
    }
  }
}

TEST(DeviceSizes, ManyRounds) {
  if (device_count() == 0) {
    GTEST_SKIP() << "gpu1: needs one GPU";
  }
  DeviceRanks ranks(4);
  for (const char* protocol : {"ll128", "slots"}) {
    for (const std::int64_t count : {4'000'001, 16 * 1024 * 1024}) {
      for (const Collective collective :
           {Collective::kAllReduce, Collective::kBroadcast, Collective::kReduce}) {
        ranks.run({.collective = collective, .count = count, .protocol = protocol});
        ASSERT_FALSE(HasFailure());
      }
      for (const Collective collective :
           {Collective::kAllGather, Collective::kReduceScatter, Collective::kAllToAll}) {
        ranks.run({.collective = collective, .count = count / 4, .protocol = protocol});
        ASSERT_FALSE(HasFailure());
      }
    }
  }
}

// A root needs nothing from the others, so it may run ahead of them, but not too far.
TEST(DeviceSizes, RootsRunAhead) {
  if (device_count() == 0) {
    GTEST_SKIP() << "gpu1: needs one GPU";
  }
  DeviceRanks ranks(4);
  for (const std::int64_t count : {300'000, 1'048'576, 2'000'001}) {
    for (const char* algorithm : {"direct", "scatter_forward"}) {
      const DeviceCase c{
          .collective = Collective::kBroadcast, .count = count, .algorithm = algorithm};
      const std::vector<Bytes> inputs = ranks.start(c);
      for (int i = 0; i < 30; ++i) {
        for (int rank = 0; rank < ranks.size(); ++rank) {
          ASSERT_EQ(ranks[rank].call(c), SENNIT_OK) << sennit_last_error_message();
        }
      }
      ranks.finish(c, inputs);
      ASSERT_FALSE(HasFailure());
    }
  }
}

// In one group, messages of a rank to and from each other, as of an all_to_all; `parts` says in how
// many.
template <class Parts>
void exchange(DeviceRanks& ranks, int rank, const DeviceCase& c, const Parts& parts) {
  DeviceRank& r = ranks[rank];
  ASSERT_EQ(sennit_group_start(), SENNIT_OK);
  for (int d = 0; d < ranks.size(); ++d) {
    const int peer = (rank + d) % ranks.size();
    float* const send = static_cast<float*>(r.send()) + peer * c.count;
    float* const recv = static_cast<float*>(r.recv()) + peer * c.count;
    std::int64_t at = 0;
    for (int left = parts(peer); left > 0; --left) {
      const std::int64_t n = left == 1 ? c.count - at : c.count / 3;
      const auto elements = static_cast<std::size_t>(n);
      ASSERT_EQ(sennit_send(send + at, elements, SENNIT_FLOAT32, peer, r.comm, r.stream, nullptr),
                SENNIT_OK);
      ASSERT_EQ(sennit_recv(recv + at, elements, SENNIT_FLOAT32, peer, r.comm, r.stream, nullptr),
                SENNIT_OK);
      at += n;
    }
  }
  ASSERT_EQ(sennit_group_end(), SENNIT_OK) << sennit_last_error_message();
}

// Every rank sends to every other, and receives, in one group, in two messages each way.
TEST(DeviceSendRecv, GroupsMeet) {
  if (device_count() == 0) {
    GTEST_SKIP() << "gpu1: needs one GPU";
  }
  DeviceRanks ranks(4);
  for (const std::int64_t count : {1, 1000, 300001, 3000000}) {
    const DeviceCase c{.collective = Collective::kAllToAll, .count = count};
    const std::vector<Bytes> inputs = ranks.prepare(c);
    ASSERT_EQ(sennit_group_start(), SENNIT_OK);
    for (int rank = 0; rank < 4; ++rank) {
      exchange(ranks, rank, c, [](int) { return 2; });
    }
    ASSERT_EQ(sennit_group_end(), SENNIT_OK) << sennit_last_error_message();
    ranks.finish(c, inputs);
    ASSERT_FALSE(HasFailure()) << count << " elements";
  }
}

// Kernels of one message to each take less than an SM for a block, those of several a whole one.
// Here half of the ranks, which share a GPU, begin with the former, and what these wait for would
// lie on more blocks than there are SMs.
TEST(DeviceSendRecv, ShortMessagesLeaveRoomForOtherKernels) {
  if (device_count() == 0) {
    GTEST_SKIP() << "gpu1: needs one GPU";
  }
  constexpr int kRanks = 16;
  const auto is_first = [](int rank) { return rank < kRanks / 2; };
  DeviceRanks ranks(kRanks);
  for (const std::int64_t count : {300, 1000}) {
    const DeviceCase c{.collective = Collective::kAllToAll, .count = count};
    for (int call = 0; call < 3; ++call) {
      const std::vector<Bytes> inputs = ranks.prepare(c);
      for (int rank = 0; rank < kRanks; ++rank) {
        if (is_first(rank)) {
          exchange(ranks, rank, c, [&](int peer) { return is_first(peer) ? 0 : 1; });
          exchange(ranks, rank, c, [&](int peer) { return is_first(peer) ? 1 : 0; });
        } else {
          exchange(ranks, rank, c, [&](int peer) { return is_first(peer) ? 1 : 2; });
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      ranks.finish(c, inputs);
      ASSERT_FALSE(HasFailure()) << count << " elements";
    }
  }
}

constexpr int kCallsOfGraph = 5;

TEST(DeviceGraphs, ReplaysAreCalls) {
  if (device_count() == 0) {
    GTEST_SKIP() << "gpu1: needs one GPU";
  }
  // In place, so that each call sums what the one before left: of three ranks 3 times as much, in
  // integers that wrap and never become 0. What an older call left would be seen at the end.
  constexpr int kRanks = 3;
  constexpr int kReplays = 10'000;
  DeviceRanks ranks(kRanks);
  const DeviceCase c{.count = 5000, .dtype = Dtype::kUint32, .in_place = true};
  const std::vector<Bytes> inputs = ranks.prepare(c);
  const std::vector<CapturedGraph> graphs = ranks.capture(c, kCallsOfGraph);
  ASSERT_FALSE(HasFailure());
  DeviceRanks::launch(graphs, kReplays);
  std::uint32_t factor = 1;
  for (int call = 1; call < kReplays * kCallsOfGraph; ++call) {
    factor *= kRanks;
  }
  Bytes expected = expected_output(c, inputs, 0);
  for (std::size_t at = 0; at < expected.size(); at += sizeof(factor)) {
    std::uint32_t element = 0;
    std::memcpy(&element, expected.data() + at, sizeof(element));
    element *= factor;
    std::memcpy(expected.data() + at, &element, sizeof(element));
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_TRUE(ranks[rank].output(c) == expected) << "rank " << rank;
  }
  ranks.run({.count = 5000});
}

TEST(DeviceGraphs, ReplaysReduceInTwoHops) {
  if (device_count() == 0) {
    GTEST_SKIP() << "gpu1: needs one GPU";
  }
  DeviceRanks ranks(4);
  for (const char* protocol : {"ll", "ll128", "slots"}) {
    const DeviceCase c{.collective = Collective::kReduce,
                       .count = 300'007,
                       .root = 1,
                       .algorithm = "scatter_gather",
                       .protocol = protocol};
    const std::vector<Bytes> inputs = ranks.start(c);
    const std::vector<CapturedGraph> graphs = ranks.capture(c, kCallsOfGraph);
    ASSERT_FALSE(HasFailure());
    DeviceRanks::launch(graphs, 50);
    ranks.finish(c, inputs);
    ASSERT_FALSE(HasFailure());
  }
}

}  // namespace
}  // namespace sennit::tests
