// Ranks that are processes, whose GPUs reach each other through host memory alone.
#include "comm/device/fake_direct_kernel.hpp"
#include "comm/device/fake_gpus.hpp"
#include "comm/device/fake_pairs_kernel.hpp"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace sennit::tests {
namespace {

constexpr int kProcesses = 3;
constexpr std::int64_t kBytes = 200'001;

// An all_gather on the host, in memory that forked processes share.
class SharedExchange {
 public:
  SharedExchange()
      : room_(static_cast<Room*>(::mmap(nullptr,
                                        sizeof(Room),
                                        PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_ANONYMOUS,
                                        /*fd=*/-1,
                                        /*offset=*/0))) {}
  ~SharedExchange() { ::munmap(room_, sizeof(Room)); }
  SharedExchange(const SharedExchange&) = delete;
  SharedExchange& operator=(const SharedExchange&) = delete;

  Status run(int rank, const void* mine, void* all, std::size_t bytes) {
    if (bytes * kProcesses > room_->bytes.size()) {
      return fail(Code::kInternalError, "the exchange has no room for {} bytes", bytes);
    }
    meet();
    std::memcpy(room_->bytes.data() + static_cast<std::size_t>(rank) * bytes, mine, bytes);
    meet();
    std::memcpy(all, room_->bytes.data(), bytes * kProcesses);
    meet();
    return {};
  }
  void meet() {
    const int number = ++met_;
    room_->arrived.fetch_add(1);
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (room_->arrived.load() < number * kProcesses) {
      if (std::chrono::steady_clock::now() > end) {
        ADD_FAILURE() << "a rank does not come";
        ::_exit(1);
      }
      ::usleep(100);
    }
  }

 private:
  // A valid beginning is all zeros.
  struct Room {
    std::atomic<int> arrived;
    std::array<std::byte, 4096> bytes;
  };
  Room* room_;
  int met_ = 0;  // of this process
};

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

// In the child: makes the rank and runs `body`.
void be_rank(int number,
             const std::string& key,
             SharedExchange& exchange,
             const std::function<void(Rank&)>& body) {
  Rank self;
  self.rank = number;
  self.cuda =
      std::make_shared<FakeCuda>(FakeCuda::Options{.devices = kProcesses, .has_peers = false});
  self.cuda->run_kernels(fake_direct_kernel);
  EXPECT_TRUE(self.cuda->use_device(number).ok());
  CommConfig config;
  config.device = "cuda";
  // What is sent goes around its ring many times.
  config.host_slot_bytes = 4096;
  config.host_ring_bytes = 3 * config.host_slot_bytes;
  self.joined =
      take(Communicator::create({.rank = number, .size = kProcesses, .key = key}, config));
  self.comm = take(DeviceComm::create(*self.cuda,
                                      number,
                                      self.joined->world(),
                                      {.deadline_s = 5},
                                      [&](const void* mine, void* all, std::size_t bytes) {
                                        return exchange.run(number, mine, all, bytes);
                                      }));
  self.stream = take(self.cuda->create_stream());
  self.send = self.allocate(kBytes + 1) + 1;
  self.recv = self.allocate(kBytes + 1) + 1;
  std::memcpy(self.send, contents(number, kBytes).data(), kBytes);
  body(self);
}

// The exit status of each.
std::vector<int> run_ranks(const std::function<void(Rank&, SharedExchange&)>& body) {
  SharedExchange exchange;
  const std::string key = fmt::format("host-arenas-{}", ::getpid());
  std::vector<pid_t> children;
  for (int rank = 0; rank < kProcesses; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      be_rank(rank, key, exchange, [&](Rank& self) { body(self, exchange); });
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  std::vector<int> ends;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    ends.push_back(status);
  }
  return ends;
}

TEST(HostArenas, JoinProcesses) {
  const std::vector<int> ends = run_ranks([](Rank& rank, SharedExchange& exchange) {
    for (const char* const protocol : {"ll", "slots", "ll", "slots"}) {
      Operation op = all_reduce(rank);
      op.wishes.protocol = protocol;
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
    op.wishes.protocol = "slots";
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

TEST(HostArenas, KeepWhatARankHasSentThatHasEndedInOrder) {
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

TEST(HostArenas, LeaveNothingOfARankThatIsKilled) {
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
