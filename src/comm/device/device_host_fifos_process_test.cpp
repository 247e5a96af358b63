// Ranks that are processes, whose GPUs reach each other through host memory alone.
#include "comm/device/testing/fake_processes.hpp"
#include "exec/sm/testing/fake_direct_kernel.hpp"
#include "exec/sm/testing/fake_pairs_kernel.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace sennit::tests {
namespace {

constexpr std::int64_t kBytes = 200'001;

std::set<std::string> names_in_dev_shm() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    // Other programs come and go; what is ours has our name.
    if (const std::string name = entry.path().filename();
        name.find("sennit") != std::string::npos) {
      names.insert(name);
    }
  }
  return names;
}

Operation all_reduce(const Rank& rank) {
  Operation op;
  op.collective = Collective::kAllReduce;
  op.send = rank.send;
  op.recv = rank.recv;
  op.count = kBytes;
  return op;
}

void check_reduced(const Rank& rank) {
  for (std::int64_t i = 0; i < kBytes; ++i) {
    int sum = 0;
    for (int source = 0; source < kProcesses; ++source) {
      sum += std::to_integer<int>(content(source, i));
    }
    ASSERT_EQ(rank.recv[i], static_cast<std::byte>(sum)) << "rank " << rank.rank << ", byte " << i;
  }
}

std::vector<int> run_ranks(const std::function<void(Rank&, SharedExchange&)>& body) {
  ProcessOptions options{.name = "host-fifos", .cuda = {.devices = kProcesses, .has_peers = false}};
  options.comm.device = "cuda";
  // What is sent goes around its ring many times.
  options.comm.host_slot_bytes = 4096;
  options.comm.host_ring_bytes = 3 * *options.comm.host_slot_bytes;
  return run_processes(options, [&](Rank& rank, SharedExchange& exchange) {
    rank.cuda->run_kernels(fake_direct_kernel);
    rank.send = rank.allocate(kBytes + 1) + 1;
    rank.recv = rank.allocate(kBytes + 1) + 1;
    std::memcpy(rank.send, contents(rank.rank, kBytes).data(), kBytes);
    body(rank, exchange);
  });
}

TEST(HostFifos, JoinProcesses) {
  const std::vector<int> ends = run_ranks([](Rank& rank, SharedExchange& exchange) {
    for (const char* const protocol : {"ll", "slots", "ll", "slots"}) {
      Operation op = all_reduce(rank);
      op.request.protocol = protocol;
      ASSERT_TRUE(rank.call(op).ok());
      rank.finish();
      check_reduced(rank);
      std::memset(rank.recv, 0, kBytes);
    }
    exchange.meet();
  });
  EXPECT_EQ(ends, std::vector(kProcesses, 0));
}

// To the next rank and from the previous one, in slots.
std::vector<DeviceComm::Call> ring_of_messages(const Rank& rank) {
  std::vector<DeviceComm::Call> calls;
  for (const bool is_send : {true, false}) {
    Operation op;
    op.collective = Collective::kSendRecv;
    op.is_send = is_send;
    op.peer = (rank.rank + (is_send ? 1 : kProcesses - 1)) % kProcesses;
    op.send = is_send ? rank.send : nullptr;
    op.recv = is_send ? nullptr : rank.recv;
    op.count = kBytes;
    op.request.protocol = "slots";
    calls.push_back({op, rank.stream});
  }
  return calls;
}

TEST(HostRingsOfPairs, CarryMessagesBetweenProcesses) {
  const std::vector<int> ends = run_ranks([](Rank& rank, SharedExchange& exchange) {
    rank.cuda->run_kernels(fake_pairs_kernel);
    const Bytes expected = contents((rank.rank + kProcesses - 1) % kProcesses, kBytes);
    for (int i = 0; i < 4; ++i) {
      const int launches = rank.launches();
      std::memset(rank.recv, 0, kBytes);
      const Status status = rank.comm->enqueue(ring_of_messages(rank));
      ASSERT_TRUE(status.ok()) << status.message();
      rank.finish();
      EXPECT_TRUE(holds(rank.recv, expected)) << "rank " << rank.rank << ", round " << i;
      EXPECT_EQ(rank.launches() - launches, i == 0 ? 1 : 0) << "by slots from the second on";
      exchange.meet();
    }
    EXPECT_EQ(rank.cuda->faults(), "");
  });
  EXPECT_EQ(ends, std::vector(kProcesses, 0));
}

TEST(HostRingsOfPairs, LetStreamsGoWhenARankIsKilled) {
  const std::vector<int> ends = run_ranks([](Rank& rank, SharedExchange& exchange) {
    rank.cuda->run_kernels(fake_pairs_kernel);
    ASSERT_TRUE(rank.comm->enqueue(ring_of_messages(rank)).ok());
    rank.finish();
    exchange.meet();
    if (rank.rank == 1) {
      ::raise(SIGKILL);
    }
    (void)rank.comm->enqueue(ring_of_messages(rank));
    for (int i = 0; i < 100 && rank.comm->failure().ok(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    EXPECT_EQ(rank.comm->failure().code(), Code::kRankFailed) << rank.comm->failure().message();
    rank.finish();
  });
  ASSERT_EQ(ends.size(), 3U);
  EXPECT_EQ(ends[0], 0);
  EXPECT_TRUE(WIFSIGNALED(ends[1]) && WTERMSIG(ends[1]) == SIGKILL);
  EXPECT_EQ(ends[2], 0);
}

TEST(HostFifos, KeepWhatARankHasSentThatHasEndedInOrder) {
  const std::vector<int> ends = run_ranks([](Rank& rank, SharedExchange& exchange) {
    Operation broadcast = all_reduce(rank);
    broadcast.collective = Collective::kBroadcast;
    broadcast.count = 1000;
    if (rank.rank == 0) {
      ASSERT_TRUE(rank.call(broadcast).ok());
      rank.finish();
      rank.joined->finalize();
      exchange.meet();
      return;
    }
    exchange.meet();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // its process has ended
    const Status status = rank.call(broadcast);
    ASSERT_TRUE(status.ok()) << status.message();
    rank.finish();
    EXPECT_TRUE(holds(rank.recv, contents(0, 1000)));
    EXPECT_TRUE(rank.comm->failure().ok()) << rank.comm->failure().message();
  });
  EXPECT_EQ(ends, std::vector(kProcesses, 0));
}

TEST(HostFifos, LeaveNothingOfARankThatIsKilled) {
  const std::set<std::string> before = names_in_dev_shm();
  const std::vector<int> ends = run_ranks([](Rank& rank, SharedExchange& exchange) {
    ASSERT_TRUE(rank.call(all_reduce(rank)).ok());
    rank.finish();
    exchange.meet();
    if (rank.rank == 1) {
      ::raise(SIGKILL);
    }
    // It waits for packets that never come.
    ASSERT_TRUE(rank.call(all_reduce(rank)).ok());
    for (int i = 0; i < 100 && rank.comm->failure().ok(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    EXPECT_EQ(rank.comm->failure().code(), Code::kRankFailed) << rank.comm->failure().message();
    rank.finish();
  });
  ASSERT_EQ(ends.size(), 3U);
  EXPECT_EQ(ends[0], 0);
  EXPECT_TRUE(WIFSIGNALED(ends[1]) && WTERMSIG(ends[1]) == SIGKILL);
  EXPECT_EQ(ends[2], 0);
  EXPECT_EQ(names_in_dev_shm(), before);
}

}  // namespace
}  // namespace sennit::tests
