// Reductions that read the inputs of other ranks where they lie, on GPUs there are: every rank has
// a GPU and a thread of its own.
#include "device_ranks.hpp"

#include <algorithm>
#include <thread>
#include <vector>

namespace sennit::tests {
namespace {

using DeviceReads = GpuRanks;

constexpr Collective kFamily[] = {Collective::kAllReduce, Collective::kReduceScatter};

// Nothing, less than 16 bytes, unaligned parts, some of all threads, more than all threads
// hold; unaligned buffers, which go by packets.
TEST_F(DeviceReads, ReduceEveryElement) {
  for (const Collective collective : kFamily) {
    for (const std::int64_t count : {0, 1, 3, 1001, 70'004, 4'000'004}) {
      for (const bool in_place : {false, true}) {
        for (const std::size_t offset : {0, 1}) {
          ranks_->run({.collective = collective,
                       .count = count,
                       .in_place = in_place,
                       .offset = offset,
                       .protocol = "direct_get"});
          ASSERT_FALSE(HasFailure()) << name(collective) << " " << count;
        }
      }
    }
  }
}

TEST_F(DeviceReads, HaveTheHostsBitsOfEveryPairOfTheTable) {
  for (const Dtype dtype : kDtypes) {
    for (const ReduceOp op : kReduceOps) {
      if (!has_operator(dtype, op) || !has_every_kernel(op) || op == ReduceOp::kPremulSum) {
        continue;
      }
      for (const Collective collective : kFamily) {
        ranks_->run({.collective = collective,
                     .count = 100'003,
                     .dtype = dtype,
                     .op = op,
                     .protocol = "direct_get"});
        ASSERT_FALSE(HasFailure()) << name(dtype) << " " << name(op);
      }
    }
  }
}

TEST_F(DeviceReads, PacketsAndStoresTakeTurns) {
  for (int i = 0; i < 5; ++i) {
    ranks_->run({.count = 50'000, .protocol = "slots"});
    ranks_->run({.count = 1'000'000, .protocol = "direct_get"});
    ranks_->run(
        {.collective = Collective::kAllGather, .count = 1'000'000, .protocol = "direct_put"});
    ASSERT_FALSE(HasFailure());
  }
}

// Each replay reads what the one before it has left, in place: no rank may see a sum early.
TEST_F(DeviceReads, AreReplayed) {
  constexpr int kRounds = 20;
  constexpr int kReplays = 10;
  const DeviceCase c{
      .count = 1'000'000, .dtype = Dtype::kInt32, .in_place = true, .protocol = "direct_get"};
  ranks_->prepare(c);
  std::uint32_t sum = 0;
  for (int rank = 0; rank < ranks_->size(); ++rank) {
    sum += static_cast<std::uint32_t>(rank + 1);
  }
  for (int i = 1; i < kReplays; ++i) {
    sum *= static_cast<std::uint32_t>(ranks_->size());
  }
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks_->size(); ++rank) {
    threads.emplace_back([&, rank] {
      check_cuda(cudaSetDevice(rank % device_count()));
      DeviceRank& r = (*ranks_)[rank];
      const CapturedGraph replay(
          r.stream, [&] { EXPECT_EQ(r.call(c), SENNIT_OK) << sennit_last_error_message(); });
      const std::vector<std::uint32_t> input(static_cast<std::size_t>(c.count),
                                             static_cast<std::uint32_t>(rank + 1));
      std::vector<std::uint32_t> output(input.size());
      const std::size_t bytes = input.size() * sizeof(std::uint32_t);
      for (int round = 0; round < kRounds; ++round) {
        check_cuda(cudaMemcpy(r.recv(), input.data(), bytes, cudaMemcpyHostToDevice));
        check_cuda(cudaDeviceSynchronize());
        replay.launch(kReplays);
        check_cuda(cudaStreamSynchronize(r.stream));
        check_cuda(cudaMemcpy(output.data(), r.recv(), bytes, cudaMemcpyDeviceToHost));
        EXPECT_EQ(std::ranges::count(output, sum), c.count) << "rank " << rank << ", " << round;
      }
    });
  }
}

}  // namespace
}  // namespace sennit::tests
