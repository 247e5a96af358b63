// FakeProcesses, for tests: ranks with fake GPUs that are processes.
//
//   const std::vector<int> ends = run_processes(options, [](Rank& rank, SharedExchange& exchange) {
//     ... in a process of its own ...
//   });
//   EXPECT_EQ(ends, std::vector(kProcesses, 0));
#pragma once

#include "comm/device/testing/fake_gpus.hpp"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace sennit::tests {

inline constexpr int kProcesses = 3;

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

struct ProcessOptions {
  std::string name;  // of the test
  FakeCuda::Options cuda{.devices = kProcesses};
  CommConfig comm{};
  DeviceComm::Options device{.deadline_s = 5, .profile = profile_for({})};
};

// In the child: makes the rank and runs `body`.
inline void be_rank(int number,
                    const ProcessOptions& options,
                    const std::string& key,
                    SharedExchange& exchange,
                    const std::function<void(Rank&, SharedExchange&)>& body) {
  Rank self;
  self.rank = number;
  self.cuda = std::make_shared<FakeCuda>(options.cuda);
  EXPECT_TRUE(self.cuda->use_device(number).ok());
  self.joined =
      take(Communicator::create({.rank = number, .size = kProcesses, .key = key}, options.comm));
  self.comm = take(DeviceComm::create(*self.cuda,
                                      number,
                                      self.joined->world(),
                                      options.device,
                                      [&](const void* mine, void* all, std::size_t bytes) {
                                        return exchange.run(number, mine, all, bytes);
                                      }));
  self.stream = take(self.cuda->create_stream());
  body(self, exchange);
}

// The exit status of each.
inline std::vector<int> run_processes(const ProcessOptions& options,
                                      const std::function<void(Rank&, SharedExchange&)>& body) {
  SharedExchange exchange;
  const std::string key = fmt::format("{}-{}", options.name, ::getpid());
  std::vector<pid_t> children;
  for (int rank = 0; rank < kProcesses; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      be_rank(rank, options, key, exchange, body);
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

}  // namespace sennit::tests
