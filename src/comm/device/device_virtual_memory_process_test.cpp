// Memory that a program has mapped itself, between processes: one takes over the descriptors of
// another.
#include "comm/device/testing/fake_messages.hpp"
#include "comm/device/testing/fake_processes.hpp"
#include "exec/sm/testing/fake_pairs_kernel.hpp"
#include "world/rendezvous/process.hpp"

#include <gtest/gtest.h>

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <vector>

namespace sennit::tests {
namespace {

constexpr std::int64_t kCount = 200'003;

// Containers may forbid it: packets carry the messages then.
bool may_take_descriptors() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  const bool may = take_descriptor(pidfd.get(), STDERR_FILENO).ok();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return may;
}

class VirtualMemoryOfProcesses : public ::testing::Test {
 protected:
  // As often as the ranks have offered a buffer.
  static void count_announced(const Rank& rank, std::atomic<int>& announced) {
    rank.cuda->run_kernels([&announced](const void* kernel, const void* parameters) {
      announced += static_cast<int>(offers_in(kernel, parameters).size());
      return fake_pairs_kernel(kernel, parameters);
    });
  }
  static std::byte* allocate(const Rank& rank) {
    return static_cast<std::byte*>(take(rank.cuda->allocate_virtual(kCount)));
  }
  static std::byte* outgoing_of(const Rank& rank) {
    std::byte* const memory = allocate(rank);
    std::memcpy(memory, contents(rank.rank, kCount).data(), kCount);
    return memory;
  }
  static Calls around(const Rank& rank, std::byte* out, std::byte* in) {
    return requested({send(rank, next_of(rank, kProcesses), out, kCount),
                      recv(rank, previous_of(rank, kProcesses), in, kCount)},
                     "direct_put");
  }
  static void pass(const Rank& rank, std::byte* out, std::byte* in) {
    std::memset(in, 0xa5, kCount);
    ASSERT_TRUE(post(rank, around(rank, out, in)).ok());
    rank.finish();
    ASSERT_TRUE(holds(in, contents(previous_of(rank, kProcesses), kCount)));
  }
  ProcessOptions options_{.name = "virtual-memory"};
};

TEST_F(VirtualMemoryOfProcesses, IsStoredInto) {
  const bool may = may_take_descriptors();
  const auto ends = run_processes(options_, [&](Rank& rank, SharedExchange& exchange) {
    std::atomic<int> announced{0};
    count_announced(rank, announced);
    std::byte* const out = outgoing_of(rank);
    for (int generation = 0; generation < 3; ++generation) {
      std::byte* const in = allocate(rank);
      const int before = announced;
      for (int i = 0; i < 4; ++i) {
        pass(rank, out, in);
        exchange.meet();
      }
      EXPECT_EQ(announced > before, may);
      ASSERT_TRUE(rank.cuda->release(in).ok());
    }
    EXPECT_EQ(rank.cuda->faults(), "");
    exchange.meet();
  });
  EXPECT_EQ(ends, std::vector(kProcesses, 0));
}

// What its sender has mapped is still there.
TEST_F(VirtualMemoryOfProcesses, OfOneThatIsKilledHurtsNobody) {
  const auto ends = run_processes(options_, [&](Rank& rank, SharedExchange& exchange) {
    rank.cuda->run_kernels(fake_pairs_kernel);
    std::byte* const out = outgoing_of(rank);
    std::byte* const in = allocate(rank);
    for (int i = 0; i < 3; ++i) {
      pass(rank, out, in);
      exchange.meet();
    }
    if (rank.rank == 1) {
      ::raise(SIGKILL);
    }
    (void)post(rank, around(rank, out, in));
    EXPECT_EQ(failure_of(rank).code(), Code::kRankFailed) << rank.comm->failure().message();
    rank.finish();
  });
  ASSERT_EQ(ends.size(), 3U);
  EXPECT_EQ(ends[0], 0);
  EXPECT_TRUE(WIFSIGNALED(ends[1]) && WTERMSIG(ends[1]) == SIGKILL);
  EXPECT_EQ(ends[2], 0);
}

}  // namespace
}  // namespace sennit::tests
