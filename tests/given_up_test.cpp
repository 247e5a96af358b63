// What is read out of the memory of a rank that gives up its call is no message: its program may
// use the buffer again.
#include "algo/algorithm.hpp"
#include "exec/cpu/job.hpp"
#include "verify/verify.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace sennit {
namespace {

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

// A broadcast along a chain of three ranks, each of which reads from the one before it.
class GivenUp : public testing::Test {
 protected:
  static constexpr int kRanks = 3;
  static constexpr std::int64_t kCount = 16;
  static constexpr int kSlots = 2;

  GivenUp() : memory_(static_cast<std::byte*>(std::aligned_alloc(4096, bytes()))) {
    std::memset(memory_.get(), 0, bytes());
    for (StatusLine& line : lines_) {
      line.state = RankState::kActive;
    }
    const Algorithm* chain = find_algorithm(Collective::kBroadcast, "chain").value();
    const auto plan = std::make_shared<Plan>();
    plan->strands.push_back(
        bind(std::make_shared<const Schedule>(make_schedule(*chain, {.ranks = kRanks}).value()),
             PathKind::kCma,
             Protocol::kDirectGet,
             kSlots,
             Engine::kCpu));
    plan->strands.front().tile_bytes = kCount * 8;
    const Proof proof = verify(*plan).value();
    for (int rank = 0; rank < kRanks; ++rank) {
      HostRank& host = ranks_.emplace_back(rank, shm::RingPool(memory_.get(), kGeometry), bells_);
      host.lines = lines_.data();
      host.peers.assign(kRanks, cma::PeerMemory(::getpid(), /*same_process=*/true));
      auto program = compile(plan, proof, rank, {.ports = 2, .slots = kSlots, .slot_bytes = 4096});
      bound_.push_back(
          std::make_unique<BoundProgram>(std::move(program).value(), host, std::span<const int>()));
      auto& buffer = buffers_[static_cast<std::size_t>(rank)];
      buffer.fill(rank == 0 ? 42 : -1);
      jobs_.push_back(std::make_unique<Job>(*bound_.back(),
                                            Call{.input = buffer.data(),
                                                 .output = buffer.data(),
                                                 .count = kCount,
                                                 .dtype = Dtype::kInt64,
                                                 .fingerprint = 7}));
    }
  }

  static std::size_t bytes() { return shm::RingPool::bytes(kGeometry); }
  void advance(int rank) {
    while (jobs_[static_cast<std::size_t>(rank)]->advance()) {
    }
  }
  const Job& job(int rank) const { return *jobs_[static_cast<std::size_t>(rank)]; }

  static constexpr shm::RingGeometry kGeometry{
      .ranks = kRanks, .ports = 2, .slots = kSlots, .slot_bytes = 4096};
  std::unique_ptr<std::byte, Free> memory_;
  std::array<StatusLine, kRanks> lines_{};
  Doorbell bells_[kRanks];
  std::vector<HostRank> ranks_ = [] {
    std::vector<HostRank> ranks;
    ranks.reserve(kRanks);  // programs point to them
    return ranks;
  }();
  std::vector<std::unique_ptr<BoundProgram>> bound_;
  std::array<std::array<std::int64_t, kCount>, kRanks> buffers_{};
  std::vector<std::unique_ptr<Job>> jobs_;
};

TEST_F(GivenUp, IsNoneOfThoseThatStay) {
  for (int round = 0; round < kRanks; ++round) {
    for (int rank = 0; rank < kRanks; ++rank) {
      advance(rank);
    }
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_TRUE(job(rank).finished() && job(rank).status().ok()) << rank;
    EXPECT_EQ(buffers_[static_cast<std::size_t>(rank)].back(), 42) << rank;
  }
}

TEST_F(GivenUp, IsNamedAndNothingOfItGoesOn) {
  advance(0);
  lines_[0].fail(Code::kDeadlineExceeded, -1);
  buffers_[0].fill(13);  // the call has returned
  advance(1);
  EXPECT_EQ(job(1).status().code(), Code::kRankFailed);
  EXPECT_EQ(job(1).status().detail().blamed_ranks, std::vector{0});
  EXPECT_NE(job(1).status().message().find("rank 0 gave up its call"), std::string::npos);
  advance(2);
  EXPECT_FALSE(job(2).finished());
  EXPECT_EQ(buffers_[2].back(), -1);
}

}  // namespace
}  // namespace sennit
