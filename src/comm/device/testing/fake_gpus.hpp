// FakeGpus, for tests: ranks with fake GPUs, as threads; as far as memory goes each is a process of
// its own. Kernels do not run here: what is seen of them is that they are launched.
#pragma once

#include "comm/communicator.hpp"
#include "comm/device/device_comm.hpp"
#include "drivers/cuda/testing/fake_cuda.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace sennit::tests {

using Bytes = std::vector<std::byte>;

// Large enough for copy engines, as all_gather of 4 ranks and as broadcast.
inline constexpr std::int64_t kPart = (std::int64_t{1} << 20) + 1;
inline constexpr std::int64_t kVector = (std::int64_t{4} << 20) + 3;
// In host memory, where a test has rings of few.
inline constexpr std::int64_t kSlot = std::int64_t{16} << 10;

template <typename T>
T take(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  return std::move(result).value();
}

inline std::byte content(int rank, std::int64_t at) {
  return static_cast<std::byte>((at * 7 + at / 251 + std::int64_t{37} * rank + 1) & 0xff);
}

inline Bytes contents(int rank, std::int64_t count, std::int64_t shift = 0) {
  Bytes bytes(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    bytes[static_cast<std::size_t>(i)] = content(rank, i + shift);
  }
  return bytes;
}

inline bool holds(const std::byte* memory, const Bytes& expected) {
  return expected.empty() || std::memcmp(memory, expected.data(), expected.size()) == 0;
}

struct Rank {
  int rank = 0;
  std::shared_ptr<Communicator> joined;  // its memory outlives the streams that wait in it
  std::shared_ptr<FakeCuda> cuda;
  std::unique_ptr<DeviceComm> comm;
  void* stream = nullptr;
  std::byte* send = nullptr;
  std::byte* recv = nullptr;

  // What is larger than a page is whole pages, as frameworks allocate it.
  std::byte* allocate(std::int64_t bytes) const {
    constexpr std::int64_t kPage = std::int64_t{2} << 20;
    return allocate_as_said(bytes > kPage ? (bytes + kPage - 1) / kPage * kPage : bytes);
  }
  std::byte* allocate_as_said(std::int64_t bytes) const {
    return static_cast<std::byte*>(take(cuda->allocate(static_cast<std::size_t>(bytes))));
  }
  Status call(const Operation& operation) const {
    const DeviceComm::Call one{operation, stream};
    return comm->enqueue({&one, 1});
  }
  void finish() const { EXPECT_TRUE(cuda->synchronize(stream).ok()); }
  [[nodiscard]] int launches() const { return cuda->calls("launch"); }
};

// Calls in `stream` wait until it is opened.
class Gate {
 public:
  explicit Gate(const Rank& rank) : cuda_(*rank.cuda), memory_(take(cuda_.allocate_mapped(64))) {}
  ~Gate() { EXPECT_TRUE(cuda_.release_mapped(memory_).ok()); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void close(void* stream) const { walk({WordStep::Kind::kAwait, word(0), 1}, stream); }
  void open() const { std::atomic_ref(*word(0)).store(1); }
  void mark_end(void* stream) const { walk({WordStep::Kind::kStore, word(1), 1}, stream); }
  [[nodiscard]] bool has_ended() const { return std::atomic_ref(*word(1)).load() == 1; }

 private:
  [[nodiscard]] std::uint64_t* word(int index) const {
    return static_cast<std::uint64_t*>(memory_.host) + index;
  }
  void walk(const WordStep& step, void* stream) const {
    EXPECT_TRUE(cuda_.walk_words({&step, 1}, stream).ok());
  }

  FakeCuda& cuda_;
  MappedMemory memory_;
};

// Waits until the communicator says that it has failed: for long, since machines may be busy.
inline Status failure_of(const Rank& rank) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (rank.comm->failure().ok() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return rank.comm->failure();
}

class FakeGpus : public ::testing::Test {
 protected:
  static constexpr int kRanks = 4;

  FakeGpus() {
    options_.copy_engines = DeviceComm::Options::CopyUse::kAuto;
    options_.profile->copies_from_bytes = kVector;
    options_.copies_by_kernel = false;  // a fake device would need one, in a build with CUDA
    options_.profile->message_copies_from_bytes = std::int64_t{1} << 20;
  }

  // Runs on each rank's thread, with the communicator joined.
  void run(const std::function<void(Rank&)>& body) {
    std::barrier<> barrier(ranks_);
    barrier_ = &barrier;
    Bytes exchanged;
    const std::string key = fmt::format("fake-gpus-{}", std::random_device()());
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks_; ++rank) {
      threads.emplace_back([&, rank] {
        Rank self;
        self.rank = rank;
        self.cuda =
            shared_cuda_ != nullptr ? shared_cuda_ : std::make_shared<FakeCuda>(cuda_options_);
        if (prepare_) {
          prepare_(self);
        }
        const int device = devices_[static_cast<std::size_t>(rank)];
        EXPECT_TRUE(self.cuda->use_device(device).ok());
        self.joined =
            take(Communicator::create({.rank = rank, .size = ranks_, .key = key}, comm_config_));
        DeviceComm::Options options = options_;
        options.group = groups_[static_cast<std::size_t>(rank)];
        auto made =
            DeviceComm::create(*self.cuda,
                               device,
                               self.joined->world(),
                               options,
                               [&](const void* mine, void* all, std::size_t bytes) {
                                 return exchange(barrier, exchanged, rank, mine, all, bytes);
                               });
        if (refusal_) {
          refusal_(self, made.status());
          return;
        }
        ASSERT_TRUE(made.ok()) << made.status().message();
        self.comm = std::move(made).value();
        self.stream = take(self.cuda->create_stream());
        body(self);
        barrier.arrive_and_wait();
        EXPECT_EQ(self.cuda->faults(), "");
        self.comm.reset();
      });
    }
  }

  // All ranks are here.
  void meet() { barrier_->arrive_and_wait(); }

  // What `late` calls, and how it fails, nobody knows when the others make theirs.
  Status call_last(const Rank& rank, int late, const Operation& operation) {
    if (rank.rank == late) {
      meet();
      return rank.call(operation);
    }
    Status status = rank.call(operation);
    meet();
    return status;
  }

  // The rank ends, and gives back what it took besides these.
  static void expect_nothing_left(Rank& rank, std::initializer_list<std::byte*> buffers) {
    EXPECT_TRUE(rank.cuda->destroy_stream(rank.stream).ok());
    for (std::byte* const buffer : buffers) {
      EXPECT_TRUE(rank.cuda->release(buffer).ok());
    }
    rank.comm.reset();
    EXPECT_EQ(rank.cuda->left_over(), 0);
  }

  void leave_at_the_deadline(Rank& rank, const Operation& operation) {
    leave_at_the_deadline(rank, operation, ranks_ - 1);
  }
  // The stream of rank `late` does not come on. Those of the others leave at the deadline, and can
  // be used again.
  void leave_at_the_deadline(Rank& rank, const Operation& operation, int late) {
    const Gate gate(rank);
    if (rank.rank == late) {
      gate.close(rank.stream);
    }
    (void)rank.call(operation);
    if (rank.rank != late) {
      const Status status = failure_of(rank);
      EXPECT_EQ(status.code(), Code::kDeadlineExceeded) << status.message();
      rank.finish();
    }
    meet();
    gate.open();
    rank.finish();
  }

  Status exchange(std::barrier<>& barrier,
                  Bytes& exchanged,
                  int rank,
                  const void* mine,
                  void* all,
                  std::size_t bytes) const {
    barrier.arrive_and_wait();
    if (rank == 0) {
      exchanged.resize(bytes * static_cast<std::size_t>(ranks_));
    }
    barrier.arrive_and_wait();
    std::memcpy(exchanged.data() + static_cast<std::size_t>(rank) * bytes, mine, bytes);
    barrier.arrive_and_wait();
    std::memcpy(all, exchanged.data(), exchanged.size());
    barrier.arrive_and_wait();
    return {};
  }

  static Operation all_gather(const Rank& rank, std::int64_t count = kPart) {
    Operation op;
    op.collective = Collective::kAllGather;
    op.send = rank.send;
    op.recv = rank.recv;
    op.count = count;
    return op;
  }

  static void fill(Rank& rank, std::int64_t shift = 0) {
    rank.send = rank.allocate(kPart);
    rank.recv = rank.allocate(kPart * kRanks);
    std::memcpy(rank.send, contents(rank.rank, kPart, shift).data(), kPart);
  }

  static void check_gathered(const Rank& rank, std::int64_t shift = 0) {
    for (int source = 0; source < kRanks; ++source) {
      ASSERT_TRUE(holds(rank.recv + source * kPart, contents(source, kPart, shift)))
          << "rank " << rank.rank << ", part of rank " << source;
    }
  }

  int ranks_ = kRanks;  // the first of these
  FakeCuda::Options cuda_options_{.devices = kRanks};
  DeviceComm::Options options_{.deadline_s = 20, .profile = profile_for({})};
  CommConfig comm_config_;
  std::barrier<>* barrier_ = nullptr;
  std::function<void(Rank&)> prepare_;
  std::array<int, kRanks> devices_ = {0, 1, 2, 3};     // of each rank
  std::array<int, kRanks> groups_ = {};                // that it says it is of
  std::function<void(Rank&, const Status&)> refusal_;  // set: no rank is to get its communicator
  std::shared_ptr<FakeCuda> shared_cuda_;  // of all ranks, where they are threads of one process
};

// Says when the stream of a rank has come so far, also of one that may wait for ever.
struct Mark {
  std::uint64_t word = 0;

  void put_into(const Rank& rank) {
    const WordStep step{WordStep::Kind::kStore, &word, 1};
    EXPECT_TRUE(rank.cuda->walk_words({&step, 1}, rank.stream).ok());
  }
  // For long, since machines may be busy.
  [[nodiscard]] bool is_reached() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    const auto is_set = [&] { return std::atomic_ref(word).load(std::memory_order_acquire) == 1; };
    while (!is_set() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return is_set();
  }
};

}  // namespace sennit::tests
