// Calls of GPUs that reach each other within groups alone: step by step, over both paths.
#include "memory/peer_staging.hpp"

#include "comm/device/testing/fake_gpus.hpp"
#include "exec/sm/testing/fake_steps.hpp"
#include "memory/fifo_plan.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

namespace sennit::tests {
namespace {

using Groups = std::vector<std::vector<int>>;

TEST(PeerStaging, PartsRanksIntoGroupsWithoutABrokenPair) {
  EXPECT_EQ(part_ranks(4, {}), (Groups{{0, 1, 2, 3}}));
  EXPECT_EQ(part_ranks(4, {{0, 2}, {2, 1}, {0, 3}, {1, 3}}), (Groups{{0, 1}, {2, 3}}));
  EXPECT_EQ(part_ranks(4, {{0, 1}, {2, 1}, {0, 3}, {2, 3}}), (Groups{{0, 2}, {1, 3}}));
  // A chain of ranks that reach their neighbours.
  EXPECT_EQ(part_ranks(3, {{2, 0}}), (Groups{{0, 1}, {2}}));
  EXPECT_EQ(part_ranks(2, {{1, 0}}), (Groups{{0}, {1}}));
}

constexpr std::int64_t kCount = 70'001;  // of uint32

std::uint32_t value(int rank, std::int64_t i) {
  return static_cast<std::uint32_t>(i * 2654435761 + std::int64_t{rank} * 40503 + 1);
}

class GroupedGpus : public FakeGpus {
 protected:
  GroupedGpus() { comm_config_.device = "cuda"; }

  // What kernels of this rank read and write of each peer's staging buffers, as it sees them.
  struct Seen {
    std::array<std::byte*, sm::kMaxRanks> inbox{};
    std::array<std::byte*, sm::kMaxRanks> outbox{};
    std::array<sm::StagingShape, sm::kMaxRanks> shapes{};
  };

  static void run_steps(const Rank& rank, Seen& seen) {
    rank.cuda->run_kernels([&seen](const void* /*kernel*/, const void* parameters) {
      const auto& call = *static_cast<const sm::StepCall*>(parameters);
      seen = {.inbox = call.inbox, .outbox = call.outbox, .shapes = call.staging};
      return [call] { sm::FakeSteps(call, {.dtype = Dtype::kUint32, .op = ReduceOp::kSum}).run(); };
    });
  }

  static void all_reduce(Rank& rank, const std::string& algorithm) {
    rank.send = rank.allocate(kCount * 4);
    rank.recv = rank.allocate(kCount * 4);
    for (std::int64_t i = 0; i < kCount; ++i) {
      const std::uint32_t v = value(rank.rank, i);
      std::memcpy(rank.send + i * 4, &v, 4);
    }
    Operation op;
    op.send = rank.send;
    op.recv = rank.recv;
    op.collective = Collective::kAllReduce;
    op.count = kCount;
    op.dtype = Dtype::kUint32;
    op.request.algorithm = algorithm;
    const Status status = rank.call(op);
    ASSERT_TRUE(status.ok()) << status.message();
    rank.finish();
    for (std::int64_t i = 0; i < kCount; ++i) {
      std::uint32_t found = 0;
      std::memcpy(&found, rank.recv + i * 4, 4);
      ASSERT_EQ(found, value(0, i) + value(1, i) + value(2, i) + value(3, i))
          << algorithm << ", rank " << rank.rank << ", element " << i;
    }
  }

  static bool is_on_a_device(const Rank& rank, const std::byte* memory) {
    return take(rank.cuda->facts_of(memory)).kind == MemoryKind::kDevice;
  }

  // Runs all forms, and says of which peers the staging buffers lie in device memory.
  static std::set<int> peers_of(Rank& rank) {
    Seen seen;
    run_steps(rank, seen);
    for (const std::string algorithm :
         {"ring", "hierarchical", "hierarchical_sliced", "halving_doubling"}) {
      all_reduce(rank, algorithm);
    }
    std::set<int> reached;
    for (int peer = 0; peer < kRanks; ++peer) {
      const auto at = static_cast<std::size_t>(peer);
      const bool on_devices = is_on_a_device(rank, seen.outbox[at]);
      EXPECT_EQ(on_devices, is_on_a_device(rank, seen.inbox[at]));
      const FifoPlan plan = FifoPlan::make(FifoPlace::kHost, kRanks, seen.shapes[at].blocks);
      EXPECT_EQ(seen.shapes[at], on_devices ? plan.peer_staging : plan.staging);
      if (peer != rank.rank && on_devices) {
        reached.insert(peer);
      }
    }
    return reached;
  }
};

TEST_F(GroupedGpus, UseTheWiresThatThereAre) {
  cuda_options_.unjoined = {{0, 2}, {0, 3}, {1, 2}, {1, 3}};
  run([](Rank& rank) { EXPECT_EQ(peers_of(rank), std::set{rank.rank ^ 1}); });
}

TEST_F(GroupedGpus, KeepToTheGroupsThatAreDeclared) {
  groups_ = {0, 0, 1, 1};
  run([](Rank& rank) { EXPECT_EQ(peers_of(rank), std::set{rank.rank ^ 1}); });
  groups_ = {1, 0, 1, 0};
  run([](Rank& rank) { EXPECT_EQ(peers_of(rank), std::set{rank.rank ^ 2}); });
  groups_ = {0, 0, 0, 7};
  run([](Rank& rank) { EXPECT_EQ(peers_of(rank).size(), rank.rank == 3 ? 0U : 2U); });
}

TEST_F(GroupedGpus, KeepFromWiresThatCorrupt) {
  cuda_options_.unjoined = {{0, 2}, {0, 3}, {1, 2}, {1, 3}};
  cuda_options_.corrupting = {{3, 2}};
  run([](Rank& rank) {
    EXPECT_EQ(peers_of(rank), rank.rank < 2 ? std::set{rank.rank ^ 1} : std::set<int>());
  });
}

TEST_F(GroupedGpus, AreNoneWithoutNvlink) {
  options_.nvlink = false;
  groups_ = {0, 0, 1, 1};
  run([](Rank& rank) { EXPECT_EQ(peers_of(rank), std::set<int>()); });
}

TEST_F(GroupedGpus, AreAllWhereAllReachEachOther) {
  groups_ = {5, 5, 5, 5};
  run([](Rank& rank) { EXPECT_EQ(peers_of(rank).size(), 3U); });
}

}  // namespace
}  // namespace sennit::tests
