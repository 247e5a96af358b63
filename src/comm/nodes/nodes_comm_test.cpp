// Ranks with fake GPUs that are processes, on virtual nodes of this machine, over the real UCX.
#include "comm/nodes/nodes_comm.hpp"

#include "comm/device/testing/fake_gpus.hpp"
#include "drivers/ucx/ucx.hpp"
#include "exec/sm/direct_kernels.hpp"
#include "exec/sm/testing/fake_direct_kernel.hpp"
#include "exec/sm/testing/fake_pairs_kernel.hpp"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace sennit::tests {
namespace {

constexpr int kRanks = 4;
constexpr int kNoUcx = 77;
constexpr std::int64_t kCount = 300'000;
// In more parts than there are slots.
constexpr std::int64_t kMany = 17'000'003;

std::function<void()> run_kernel(const void* kernel, const void* parameters) {
  const bool is_of_pairs = kernel == sm::pairs_kernel(1, false) || is_small_pairs_kernel(kernel);
  return is_of_pairs ? fake_pairs_kernel(kernel, parameters)
                     : fake_direct_kernel(kernel, parameters);
}

struct NodesRank {
  int rank = 0;
  FakeCuda cuda{{.devices = kRanks}};
  std::shared_ptr<Communicator> joined;
  std::unique_ptr<NodesComm> comm;
  void* stream = nullptr;
  std::byte* memory = nullptr;

  [[nodiscard]] Operation all_reduce(std::int64_t count) const {
    return {.collective = Collective::kAllReduce,
            .send = memory,
            .recv = memory,
            .count = count,
            .request = {}};
  }
  Status call(const Operation& operation) {
    const GpuComm::Call one{operation, stream};
    return comm->enqueue({&one, 1});
  }
};

// In a child.
void be_rank(int number, const std::string& key, const std::function<void(NodesRank&)>& body) {
  ::setenv("SENNIT_NODE", number < kRanks / 2 ? "a" : "b", 1);
  ::setenv("SENNIT_RAILS", "lo", 1);
  ::setenv("UCX_MEM_EVENTS", "n", 1);
  if (!ucx_driver().ok()) {
    ::_exit(kNoUcx);
  }
  NodesRank self;
  self.rank = number;
  self.cuda.run_kernels(run_kernel);
  EXPECT_TRUE(self.cuda.use_device(number).ok());
  CommConfig config;
  config.device = "cuda";
  config.deadline_s = 10;
  self.joined = take(Communicator::create(
      {.rank = number, .size = kRanks, .key = key, .root = "127.0.0.1"}, config));
  const auto engine = ProgressEngine::of_this_thread();
  engine->attach(self.joined);
  self.comm = take(NodesComm::create(
      self.cuda, number, self.joined, [&](const std::shared_ptr<Communicator>& node) {
        engine->attach(node);
        auto made = DeviceComm::create(self.cuda,
                                       number,
                                       node->world(),
                                       {.deadline_s = 10, .profile = profile_for({})},
                                       [&](const void* mine, void* all, std::size_t bytes) {
                                         return engine->gather(*node, mine, all, bytes);
                                       });
        engine->detach(*node);
        return made;
      }));
  self.stream = take(self.cuda.create_stream());
  self.memory = static_cast<std::byte*>(take(self.cuda.allocate(kMany)));
  body(self);
  self.comm.reset();
  EXPECT_EQ(self.cuda.faults(), "");
  EXPECT_TRUE(self.cuda.destroy_stream(self.stream).ok());
  EXPECT_TRUE(self.cuda.release(self.memory).ok());
  EXPECT_EQ(self.cuda.left_over(), 0);
  engine->detach(*self.joined);
}

// True where there was no UCX.
bool run(const std::string& name, const std::function<void(NodesRank&)>& body) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < kRanks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      be_rank(rank, fmt::format("{}-{}", name, ::getppid()), body);
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  bool is_skipped = false;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    is_skipped = is_skipped || (WIFEXITED(status) && WEXITSTATUS(status) == kNoUcx);
    EXPECT_TRUE(is_skipped || status == 0);
  }
  return is_skipped;
}

TEST(NodesComm, GivesAllBackAfterCalls) {
  const bool is_skipped = run("nodes-calls", [](NodesRank& rank) {
    for (const std::int64_t count : {std::int64_t{100}, kCount}) {
      std::memset(rank.memory, rank.rank + 1, static_cast<std::size_t>(count));
      ASSERT_TRUE(rank.call(rank.all_reduce(count)).ok());
      EXPECT_TRUE(rank.cuda.synchronize(rank.stream).ok());
      EXPECT_TRUE(holds(rank.memory, Bytes(static_cast<std::size_t>(count), std::byte{10})));
    }
    EXPECT_TRUE(rank.comm->finalize().ok());
  });
  if (is_skipped) {
    GTEST_SKIP() << "ucx: it cannot be opened";
  }
}

TEST(NodesComm, RunsAgainInEachReplayOfAGraph) {
  const bool is_skipped = run("nodes-graph", [](NodesRank& rank) {
    const Operation op = rank.all_reduce(kMany);
    const auto fill = [&](int value) { std::memset(rank.memory, value, kMany); };
    const auto expect = [&](int value) {
      EXPECT_TRUE(rank.cuda.synchronize(rank.stream).ok());
      EXPECT_TRUE(holds(rank.memory, Bytes(kMany, static_cast<std::byte>(value)))) << value;
    };
    fill(1);
    ASSERT_TRUE(rank.call(op).ok());  // kernels that are loaded, before the capture
    expect(kRanks);
    rank.cuda.begin_capture(rank.stream);
    ASSERT_TRUE(rank.call(op).ok());
    const FakeGraph graph = take(rank.cuda.end_capture(rank.stream));
    for (int replay = 1; replay <= 2; ++replay) {
      fill(replay);
      graph.launch(rank.stream);
      ASSERT_TRUE(rank.call(op).ok());  // while the replay is on its way
      expect(replay * kRanks * kRanks);
    }
  });
  if (is_skipped) {
    GTEST_SKIP() << "ucx: it cannot be opened";
  }
}

TEST(NodesComm, EndsAtTheDeadlineOfARankThatStaysAway) {
  const bool is_skipped = run("nodes-late", [](NodesRank& rank) {
    Operation op = rank.all_reduce(kCount);
    op.deadline_s = 0.5;
    if (rank.rank != kRanks - 1) {
      EXPECT_TRUE(rank.call(op).ok());
      EXPECT_TRUE(rank.cuda.synchronize(rank.stream).ok());  // the stream is let go
      EXPECT_FALSE(rank.comm->failure().ok());
      EXPECT_FALSE(rank.call(op).ok());
    } else {
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (rank.comm->failure().ok() && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      EXPECT_FALSE(rank.comm->failure().ok());
    }
  });
  if (is_skipped) {
    GTEST_SKIP() << "ucx: it cannot be opened";
  }
}

TEST(NodesComm, AnAbortEndsTheCallsOfAllNodes) {
  const bool is_skipped = run("nodes-abort", [](NodesRank& rank) {
    if (rank.rank == kRanks - 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      rank.comm->abort();
      EXPECT_EQ(rank.comm->failure().code(), Code::kAborted);
      std::this_thread::sleep_for(std::chrono::seconds(1));  // the others are to see it alive
      return;
    }
    EXPECT_TRUE(rank.call(rank.all_reduce(kCount)).ok());
    EXPECT_TRUE(rank.cuda.synchronize(rank.stream).ok());
    EXPECT_EQ(rank.comm->failure().code(), Code::kAborted) << rank.comm->failure().message();
  });
  if (is_skipped) {
    GTEST_SKIP() << "ucx: it cannot be opened";
  }
}

}  // namespace
}  // namespace sennit::tests
