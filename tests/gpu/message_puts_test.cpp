// Sends and recvs that kernels store straight in the receiver's buffer: between threads, which
// reach each other's memory from the first message on, and between processes, which map it first.
#include "device_ranks.hpp"
#include "gpu_processes.hpp"

#include <array>
#include <cstdlib>
#include <memory>
#include <vector>

namespace sennit::tests {
namespace {

constexpr std::size_t kRoom = std::size_t{6} << 20;
constexpr std::size_t kLong = (std::size_t{5} << 20) + 13;  // more than all threads hold at once
constexpr std::byte kUntouched{0xa5};

// A rank of a ring, each of which sends to the next.
class RingRank {
 public:
  RingRank(sennit_comm_t comm, int rank, int ranks) : comm_(comm), rank_(rank), ranks_(ranks) {
    use_device();
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    check_cuda(cudaMalloc(&out_, kRoom));
    Bytes bytes(kRoom);
    for (std::size_t i = 0; i < kRoom; ++i) {
      bytes[i] = content(rank, i);
    }
    check_cuda(cudaMemcpy(out_, bytes.data(), kRoom, cudaMemcpyHostToDevice));
    renew();
  }
  ~RingRank() {
    use_device();
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    (void)sennit_comm_destroy(comm_);  // one that has failed may say so
    EXPECT_EQ(cudaFree(out_), cudaSuccess);
    EXPECT_EQ(cudaFree(in_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }
  RingRank(const RingRank&) = delete;
  RingRank& operator=(const RingRank&) = delete;

  struct Message {
    std::size_t from = 0;  // bytes into the sender's memory
    std::size_t to = 0;    // and into the receiver's
    std::size_t bytes = 0;
  };

  void use_device() const { check_cuda(cudaSetDevice(rank_ % device_count())); }

  // Other memory to receive in, often at the same address.
  void renew() {
    use_device();
    if (in_ != nullptr) {
      check_cuda(cudaStreamSynchronize(stream_));
      check_cuda(cudaFree(in_));
    }
    check_cuda(cudaMalloc(&in_, kRoom));
    poison();
  }
  void poison() {
    check_cuda(cudaMemsetAsync(in_, static_cast<int>(kUntouched), kRoom, stream_));
    check_cuda(cudaStreamSynchronize(stream_));
  }

  void post(const Message& m) {
    use_device();
    ASSERT_EQ(sennit_group_start(), SENNIT_OK);
    EXPECT_EQ(send(m), SENNIT_OK) << sennit_last_error_message();
    EXPECT_EQ(recv(m), SENNIT_OK) << sennit_last_error_message();
    ASSERT_EQ(sennit_group_end(), SENNIT_OK) << sennit_last_error_message();
  }
  sennit_status_t send(const Message& m, double deadline_s = 0) {
    sennit_call_options_t options = request();
    options.deadline_s = deadline_s;
    return sennit_send(
        out_ + m.from, m.bytes, SENNIT_UINT8, (rank_ + 1) % ranks_, comm_, stream_, &options);
  }
  sennit_status_t recv(const Message& m, double deadline_s = 0) {
    sennit_call_options_t options = request();
    options.deadline_s = deadline_s;
    return sennit_recv(in_ + m.to, m.bytes, SENNIT_UINT8, previous(), comm_, stream_, &options);
  }

  void check(const Message& m) {
    use_device();
    Bytes found(kRoom);
    check_cuda(cudaMemcpyAsync(found.data(), in_, kRoom, cudaMemcpyDeviceToHost, stream_));
    check_cuda(cudaStreamSynchronize(stream_));
    for (std::size_t i = 0; i < kRoom; ++i) {
      const bool is_inside = i >= m.to && i < m.to + m.bytes;
      const std::byte expected = is_inside ? content(previous(), i - m.to + m.from) : kUntouched;
      ASSERT_EQ(found[i], expected) << "byte " << i << " of rank " << rank_ << ": " << m.bytes
                                    << " bytes from " << m.from << " to " << m.to;
    }
  }

  CapturedGraph capture(const Message& m, int messages) {
    use_device();
    return CapturedGraph(stream_, [&] {
      for (int i = 0; i < messages; ++i) {
        post(m);
      }
    });
  }
  void launch(const CapturedGraph& graph) {
    use_device();
    graph.launch();
  }
  void synchronize() {
    use_device();
    check_cuda(cudaStreamSynchronize(stream_));
  }

  [[nodiscard]] int previous() const { return (rank_ + ranks_ - 1) % ranks_; }
  [[nodiscard]] sennit_comm_t comm() const { return comm_; }

 private:
  static std::byte content(int rank, std::size_t at) {
    return static_cast<std::byte>(at * 7 + at / 251 + static_cast<std::size_t>(rank) * 37 + 1);
  }
  static sennit_call_options_t request() {
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.protocol = "direct_put";
    return options;
  }

  sennit_comm_t comm_;
  int rank_;
  int ranks_;
  cudaStream_t stream_ = nullptr;
  std::byte* out_ = nullptr;
  std::byte* in_ = nullptr;
};

using Message = RingRank::Message;
using Ring = std::vector<std::unique_ptr<RingRank>>;  // the ranks of this process

// What one rank does, all do: with each other, so those of other processes come to the same.
template <typename Step>
void each(Ring& ring, Step step) {
  for (auto& rank : ring) {
    step(*rank);
  }
}

void pass(Ring& ring, const Message& m) {
  each(ring, [](RingRank& rank) { rank.poison(); });
  each(ring, [&](RingRank& rank) { rank.post(m); });
  each(ring, [&](RingRank& rank) { rank.check(m); });
}

// Packets at first; then what is said about mapping has been heard.
void announce(Ring& ring, const Message& m) {
  for (int i = 0; i < 3; ++i) {
    pass(ring, m);
  }
}

void pass_at_any_alignment(Ring& ring) {
  announce(ring, {.bytes = 1000});
  for (const std::size_t from : {0, 1, 4, 8, 15}) {
    for (const std::size_t to : {0, 1, 4, 12, 15}) {
      for (const std::size_t bytes :
           {std::size_t{1}, std::size_t{17}, std::size_t{4000}, std::size_t{300'007}, kLong}) {
        pass(ring, {from, to, bytes});
        if (testing::Test::HasFatalFailure()) {
          return;
        }
      }
    }
  }
}

void pass_often_without_waiting(Ring& ring) {
  const Message m{.bytes = 300'007};
  announce(ring, m);
  for (int i = 0; i < 200; ++i) {
    each(ring, [&](RingRank& rank) { rank.post(m); });
  }
  each(ring, [&](RingRank& rank) { rank.check(m); });
}

void pass_into_other_memory(Ring& ring) {
  for (std::size_t generation = 0; generation < 5; ++generation) {
    each(ring, [](RingRank& rank) { rank.renew(); });
    announce(ring, {.from = generation, .bytes = 200'000});
  }
}

void replay(Ring& ring) {
  const Message m{.to = 16, .bytes = kLong};
  std::vector<CapturedGraph> graphs;
  const auto capture = [&] {
    each(ring, [&](RingRank& rank) { graphs.push_back(rank.capture(m, 3)); });
  };
  capture();  // of packets, between processes
  announce(ring, m);
  capture();
  each(ring, [](RingRank& rank) { rank.poison(); });
  for (int i = 0; i < 50; ++i) {
    for (std::size_t g = 0; g < graphs.size(); ++g) {
      ring[g % ring.size()]->launch(graphs[g]);
    }
    each(ring, [&](RingRank& rank) { rank.post(m); });
  }
  each(ring, [&](RingRank& rank) { rank.check(m); });
}

// Of threads of this process, one for each GPU; its calls wait for nothing, so that one makes all.
class MessagePuts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device_count() < 2) {
      GTEST_SKIP() << "gpu2: needs two GPUs";
    }
    const int ranks = std::min(device_count(), 4);
    std::vector<int> devices;
    for (int rank = 0; rank < ranks; ++rank) {
      devices.push_back(rank);
    }
    std::vector<sennit_comm_t> comms(devices.size());
    ASSERT_EQ(sennit_comm_init_all(comms.data(), ranks, devices.data(), nullptr), SENNIT_OK)
        << sennit_last_error_message();
    for (int rank = 0; rank < ranks; ++rank) {
      ring_.push_back(
          std::make_unique<RingRank>(comms[static_cast<std::size_t>(rank)], rank, ranks));
    }
  }

  Ring ring_;
};

TEST_F(MessagePuts, AnyAlignment) { pass_at_any_alignment(ring_); }
TEST_F(MessagePuts, ManyWithoutWaiting) { pass_often_without_waiting(ring_); }
TEST_F(MessagePuts, OtherMemory) { pass_into_other_memory(ring_); }
TEST_F(MessagePuts, AreReplayed) { replay(ring_); }

// And what it sends later is not stored: the offer has been withdrawn.
TEST_F(MessagePuts, ASenderThatNeverCallsIsNamedAtTheDeadline) {
  const Message m{.bytes = 300'007};
  announce(ring_, m);
  each(ring_, [](RingRank& rank) { rank.poison(); });
  RingRank& waits = *ring_[1];
  waits.use_device();
  EXPECT_EQ(waits.recv(m, 0.5), SENNIT_OK);
  waits.synchronize();
  sennit_status_t state = SENNIT_OK;
  EXPECT_EQ(sennit_comm_async_error(waits.comm(), &state), SENNIT_OK);
  EXPECT_EQ(state, SENNIT_DEADLINE_EXCEEDED);
  ring_[0]->use_device();
  (void)ring_[0]->send(m, 0.5);
  ring_[0]->synchronize();
  waits.check({});  // nothing has come
}

// The same of processes.
TEST(MessagePutProcesses, PassAll) {
  if (gpu_ranks() == 0) {
    GTEST_SKIP() << "gpu1: needs one GPU";
  }
  run_as_processes({.ranks = gpu_ranks()}, [](GpuProcess& self) {
    Ring ring;
    ring.push_back(std::make_unique<RingRank>(self.join("puts"), self.rank(), self.ranks()));
    pass_at_any_alignment(ring);
    pass_often_without_waiting(ring);
    pass_into_other_memory(ring);
    replay(ring);
  });
}

// Rank 0 gives up a message to rank 1, who never comes, before the turn of that to rank 3 in its
// lane. The next one to rank 3, in the stream already, is not taken for it.
TEST(MessageLanes, WhoseTurnDidNotComeAreNotReplacedByTheNext) {
  if (device_count() == 0) {
    GTEST_SKIP() << "gpu1: needs one GPU";
  }
  constexpr int kRanks = 4;
  constexpr std::size_t kBytes = 200'003;
  setenv("SENNIT_DEVICE_BLOCKS", "2", 1);  // a lane
  for (const char* const protocol : {"ll128", "direct_put"}) {
    std::array<sennit_comm_t, kRanks> comms{};
    std::array<int, kRanks> devices{};
    for (int rank = 0; rank < kRanks; ++rank) {
      devices[static_cast<std::size_t>(rank)] = rank % device_count();
    }
    ASSERT_EQ(sennit_comm_init_all(comms.data(), kRanks, devices.data(), nullptr), SENNIT_OK)
        << sennit_last_error_message();
    std::array<cudaStream_t, 2> streams{};  // of ranks 0 and 3
    std::array<std::byte*, 2> memory{};
    for (std::size_t i = 0; i < 2; ++i) {
      check_cuda(cudaSetDevice(devices[3 * i]));
      check_cuda(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
      check_cuda(cudaMalloc(&memory[i], 2 * kBytes));
      check_cuda(cudaMemset(memory[i], i == 0 ? 1 : 0, kBytes));
      check_cuda(cudaMemset(memory[i] + kBytes, 2, kBytes));
      check_cuda(cudaDeviceSynchronize());
    }
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.protocol = protocol;
    options.deadline_s = 5;
    EXPECT_EQ(sennit_recv(memory[1], kBytes, SENNIT_UINT8, 0, comms[3], streams[1], &options),
              SENNIT_OK);
    options.deadline_s = 0.3;
    ASSERT_EQ(sennit_group_start(), SENNIT_OK);
    for (const int peer : {1, 2, 3}) {
      EXPECT_EQ(sennit_send(memory[0], kBytes, SENNIT_UINT8, peer, comms[0], streams[0], &options),
                SENNIT_OK);
    }
    ASSERT_EQ(sennit_group_end(), SENNIT_OK) << sennit_last_error_message();
    EXPECT_EQ(
        sennit_send(memory[0] + kBytes, kBytes, SENNIT_UINT8, 3, comms[0], streams[0], &options),
        SENNIT_OK);
    for (cudaStream_t stream : streams) {
      check_cuda(cudaStreamSynchronize(stream));
    }
    std::byte found{};
    check_cuda(cudaMemcpy(&found, memory[1], 1, cudaMemcpyDeviceToHost));
    EXPECT_EQ(found, std::byte{0}) << protocol << ": that of the next message";
    for (std::size_t i = 0; i < 2; ++i) {
      check_cuda(cudaStreamDestroy(streams[i]));
      check_cuda(cudaFree(memory[i]));
    }
    for (sennit_comm_t comm : comms) {
      (void)sennit_comm_destroy(comm);  // they have failed
    }
  }
  unsetenv("SENNIT_DEVICE_BLOCKS");
}

}  // namespace
}  // namespace sennit::tests
