// Calls by copy engines on GPUs there are: every rank has a GPU and a thread of its own.
#include "device_ranks.hpp"

#include <thread>
#include <vector>

namespace sennit::tests {
namespace {

using DeviceCopyEngines = CopyEngineRanks;

TEST_F(DeviceCopyEngines, MoveEveryByteOfSmallCalls) {
  for (const Collective collective :
       {Collective::kAllGather, Collective::kAllToAll, Collective::kBroadcast}) {
    for (const std::int64_t count : {1, 1000, 70001}) {
      for (int root = 0; root < (is_rooted(collective) ? ranks_->size() : 1); ++root) {
        for (const bool in_place : {false, true}) {
          if (!in_place || collective != Collective::kAllToAll) {
            run({.collective = collective,
                 .count = count,
                 .root = root,
                 .in_place = in_place,
                 .offset = 1,
                 .protocol = "copy_engines"});
            ASSERT_FALSE(HasFailure());
          }
        }
      }
    }
  }
}

// Large enough for several parts.
TEST_F(DeviceCopyEngines, MoveEveryByteOfLargeCalls) {
  for (const Collective collective :
       {Collective::kAllGather, Collective::kAllToAll, Collective::kBroadcast}) {
    run({.collective = collective, .count = 17'000'001, .protocol = "copy_engines"}, 3);
    ASSERT_FALSE(HasFailure());
  }
}

// Reductions of threads were seen to hang (docs/decisions/0043-streams-that-share-queues.md).
TEST_F(DeviceCopyEngines, RefuseToReduceForThreads) {
  const DeviceCase c{.collective = Collective::kAllReduce,
                     .count = 1000,
                     .algorithm = "two_shot",
                     .protocol = "copy_engines"};
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks_->size(); ++rank) {
    (*ranks_)[rank].prepare(c, Bytes(4000));
    threads.emplace_back([&, rank] { EXPECT_EQ((*ranks_)[rank].call(c), SENNIT_UNSUPPORTED); });
  }
}

TEST_F(DeviceCopyEngines, MoveAShareThroughTheHost) {
  for (const Collective collective :
       {Collective::kAllGather, Collective::kAllToAll, Collective::kBroadcast}) {
    for (const char* const path : {"nvlink+host:6", "nvlink+host:50", "host"}) {
      if (collective == Collective::kBroadcast && ranks_->size() > 2 && path[0] == 'n') {
        continue;  // two hops over NVLink are for kernels
      }
      for (const std::int64_t count : {1, 70001, 3'000'001}) {
        run({.collective = collective,
             .count = count,
             .root = is_rooted(collective) ? 1 : 0,
             .offset = 1,
             .path = path},
            2);
        ASSERT_FALSE(HasFailure()) << path;
      }
    }
  }
}

TEST_F(DeviceCopyEngines, AndKernelsTakeTurns) {
  for (int i = 0; i < 5; ++i) {
    run({.collective = Collective::kAllReduce, .count = 50'000});
    run({.collective = Collective::kBroadcast, .count = 5'000'001, .protocol = "copy_engines"});
    ASSERT_FALSE(HasFailure());
  }
}

TEST_F(DeviceCopyEngines, OfTwoCommunicatorsMayBeInAnyOrderInAGroup) {
  const DeviceCase c{
      .collective = Collective::kAllGather, .count = 70'001, .protocol = "copy_engines"};
  DeviceRanks more(ranks_->size());
  const std::vector<Bytes> inputs = ranks_->prepare(c);
  const std::vector<Bytes> more_inputs = more.prepare(c);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < more.size(); ++rank) {
      threads.emplace_back([&, rank] {
        EXPECT_EQ(sennit_group_start(), SENNIT_OK);
        for (const bool first : {rank % 2 == 0, rank % 2 != 0}) {
          EXPECT_EQ((first ? *ranks_ : more)[rank].call(c), SENNIT_OK);
        }
        EXPECT_EQ(sennit_group_end(), SENNIT_OK) << sennit_last_error_message();
      });
    }
  }
  ranks_->finish(c, inputs);
  more.finish(c, more_inputs);
}

}  // namespace
}  // namespace sennit::tests
