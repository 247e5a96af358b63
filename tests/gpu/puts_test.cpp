// Collectives whose blocks are stored in the outputs of other ranks, on GPUs there are: every rank
// has a GPU and a thread of its own.
#include "device_ranks.hpp"

#include <thread>
#include <vector>

namespace sennit::tests {
namespace {

using DevicePuts = GpuRanks;
using PutsBesideCopies = CopyEngineRanks;

struct Named {
  Collective collective;
  bool may_be_in_place;
};
constexpr Named kFamily[] = {{Collective::kAllGather, true},
                             {Collective::kAllToAll, false},
                             {Collective::kBroadcast, true},
                             {Collective::kGather, true},
                             {Collective::kScatter, true}};

// Less than 16 bytes, blocks that begin apart, some of all threads, more than all threads hold.
TEST_F(DevicePuts, MoveEveryByte) {
  for (const Named& named : kFamily) {
    for (const std::int64_t count : {3, 1001, 70'004, 4'000'004}) {
      for (const bool in_place : {false, true}) {
        if (in_place && !named.may_be_in_place) {
          continue;
        }
        ranks_->run({.collective = named.collective,
                     .count = count,
                     .root = is_rooted(named.collective) ? ranks_->size() - 1 : 0,
                     .in_place = in_place,
                     .protocol = "direct_put"});
        ASSERT_FALSE(HasFailure()) << name(named.collective) << " " << count;
      }
    }
  }
}

TEST_F(DevicePuts, PassNothingOn) {
  const DeviceCase c{.collective = Collective::kBroadcast,
                     .count = 1001,
                     .algorithm = "scatter_forward",
                     .protocol = "direct_put"};
  for (int rank = 0; rank < ranks_->size(); ++rank) {
    (*ranks_)[rank].prepare(c, Bytes(4004));
    EXPECT_EQ((*ranks_)[rank].call(c), SENNIT_UNSUPPORTED);
  }
}

TEST_F(PutsBesideCopies, AndPacketsTakeTurns) {
  for (int i = 0; i < 5; ++i) {
    run({.collective = Collective::kAllReduce, .count = 50'000});
    run({.collective = Collective::kAllGather, .count = 1'000'000, .protocol = "direct_put"});
    run({.collective = Collective::kAllGather, .count = 1'000'000, .protocol = "copy_engines"});
    ASSERT_FALSE(HasFailure());
  }
}

TEST_F(PutsBesideCopies, AreReplayed) {
  const DeviceCase c{
      .collective = Collective::kAllGather, .count = 1'000'000, .protocol = "direct_put"};
  const std::vector<Bytes> inputs = ranks_->prepare(c);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks_->size(); ++rank) {
      threads.emplace_back([&, rank] {
        check_cuda(cudaSetDevice(rank % device_count()));
        DeviceRank& r = (*ranks_)[rank];
        EXPECT_EQ(r.call(c), SENNIT_OK) << sennit_last_error_message();
        check_cuda(cudaStreamSynchronize(r.stream));
        const CapturedGraph replay(
            r.stream, [&] { EXPECT_EQ(r.call(c), SENNIT_OK) << sennit_last_error_message(); });
        check_cuda(cudaMemset(r.recv(), 0xa5, output_size(c, rank, ranks_->size())));
        check_cuda(cudaDeviceSynchronize());
        replay.launch(1000);
        check_cuda(cudaStreamSynchronize(r.stream));
      });
    }
  }
  ranks_->finish(c, inputs);
}

}  // namespace
}  // namespace sennit::tests
