// Blocks of collectives between two ranks that are stored in place by few thread blocks, or sent as
// packets, as each rank reaches the other's output or does not. Every rank is a process, so that
// outputs have to be mapped first.
#include "device_ranks.hpp"
#include "gpu_processes.hpp"

#include <array>

namespace sennit::tests {
namespace {

constexpr int kRanks = 2;
// Of a block: beyond what the profile has few blocks for, and no whole number of any element.
constexpr std::size_t kCount = (std::size_t{5} << 20) + 13;

class Exchange {
 public:
  explicit Exchange(const GpuProcess& self) : self_(self), comm_(self.join("few")) {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    check_cuda(cudaMalloc(&input_, kRanks * kCount));
    check_cuda(cudaMalloc(&output_, kRanks * kCount));
  }
  ~Exchange() {
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(sennit_comm_destroy(comm_), SENNIT_OK) << sennit_last_error_message();
    EXPECT_EQ(cudaFree(input_), cudaSuccess);
    EXPECT_EQ(cudaFree(output_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Other memory to receive in, which the peer has not mapped.
  void renew() {
    check_cuda(cudaFree(output_));
    check_cuda(cudaMalloc(&output_, kRanks * kCount));
  }

  // Each call has other contents; both ranks make the same ones.
  void write() {
    ++calls_;
    const Bytes bytes = input_of(self_.rank());
    check_cuda(cudaMemcpy(input_, bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
    check_cuda(cudaMemset(output_, 0xa5, kRanks * kCount));
    check_cuda(cudaDeviceSynchronize());
  }
  void call(Collective collective) {
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.protocol = "direct_put";
    const auto function =
        collective == Collective::kAllGather ? &sennit_all_gather : &sennit_all_to_all;
    EXPECT_EQ(function(input_, output_, kCount, SENNIT_UINT8, comm_, stream_, &options), SENNIT_OK)
        << sennit_last_error_message();
  }
  void check(Collective collective) {
    Bytes found(kRanks * kCount);
    check_cuda(cudaStreamSynchronize(stream_));
    check_cuda(cudaMemcpy(found.data(), output_, found.size(), cudaMemcpyDeviceToHost));
    for (int source = 0; source < kRanks; ++source) {
      const Bytes sent = input_of(source);
      const std::size_t from =
          collective == Collective::kAllToAll ? static_cast<std::size_t>(self_.rank()) * kCount : 0;
      ASSERT_EQ(
          std::memcmp(
              found.data() + static_cast<std::size_t>(source) * kCount, sent.data() + from, kCount),
          0)
          << name(collective) << " " << calls_ << ", block of " << source << " at rank "
          << self_.rank();
    }
  }
  void run(Collective collective) {
    write();
    call(collective);
    check(collective);
  }
  // All thread blocks of both ranks, which use the same words and FIFOs.
  void run_messages() {
    const int other = 1 - self_.rank();
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.protocol = "direct_put";
    write();
    ASSERT_EQ(sennit_group_start(), SENNIT_OK);
    for (int i = 0; i < kRanks; ++i) {
      const std::size_t at = static_cast<std::size_t>(i) * kCount;
      EXPECT_EQ(sennit_send(input_ + at, kCount, SENNIT_UINT8, other, comm_, stream_, &options),
                SENNIT_OK);
      EXPECT_EQ(sennit_recv(output_ + at, kCount, SENNIT_UINT8, other, comm_, stream_, &options),
                SENNIT_OK);
    }
    ASSERT_EQ(sennit_group_end(), SENNIT_OK) << sennit_last_error_message();
    Bytes found(kRanks * kCount);
    check_cuda(cudaStreamSynchronize(stream_));
    check_cuda(cudaMemcpy(found.data(), output_, found.size(), cudaMemcpyDeviceToHost));
    ASSERT_TRUE(found == input_of(other)) << "messages, " << calls_;
  }

  CapturedGraph capture(Collective collective) {
    return CapturedGraph(stream_, [&] { call(collective); });
  }
  void replay(const CapturedGraph& graph, Collective collective) {
    write();
    graph.launch();
    check(collective);
  }

 private:
  [[nodiscard]] Bytes input_of(int rank) const {
    Bytes bytes(kRanks * kCount);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::byte>(i * 7 + i / 251 +
                                        static_cast<std::size_t>(rank * 37 + calls_ * 101));
    }
    return bytes;
  }

  const GpuProcess& self_;
  sennit_comm_t comm_;
  cudaStream_t stream_ = nullptr;
  std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  int calls_ = 0;
};

constexpr std::array kFamily = {Collective::kAllGather, Collective::kAllToAll};

// Of two ranks that reach each other one takes other memory, or both do.
TEST(FewBlockProcesses, MoveEveryByteWhicheverBufferIsReached) {
  if (gpu_ranks() == 0) {
    GTEST_SKIP() << "gpu1: needs one GPU";
  }
  run_as_processes({.ranks = kRanks}, [](GpuProcess& self) {
    Exchange exchange(self);
    for (const Collective collective : kFamily) {
      for (const unsigned renewed : {0b00U, 0b01U, 0b10U, 0b11U}) {
        for (int i = 0; i < 4; ++i) {
          exchange.run(collective);
        }
        if (((renewed >> self.rank()) & 1U) != 0) {
          exchange.renew();
        }
        for (int i = 0; i < 2; ++i) {
          exchange.run(collective);
        }
        exchange.run_messages();
        if (testing::Test::HasFatalFailure()) {
          return;
        }
      }
    }
  });
}

// A graph stays as it was captured: packets, or few blocks.
TEST(FewBlockProcesses, AreReplayedInTurnWithPackets) {
  if (gpu_ranks() == 0) {
    GTEST_SKIP() << "gpu1: needs one GPU";
  }
  run_as_processes({.ranks = kRanks}, [](GpuProcess& self) {
    Exchange exchange(self);
    for (const Collective collective : kFamily) {
      exchange.run(collective);
      exchange.renew();
      const CapturedGraph packets = exchange.capture(collective);
      for (int i = 0; i < 4; ++i) {
        exchange.run(collective);
      }
      const CapturedGraph few = exchange.capture(collective);
      for (int i = 0; i < 10; ++i) {
        exchange.replay(few, collective);
        exchange.replay(packets, collective);
        exchange.run(collective);
      }
    }
  });
}

}  // namespace
}  // namespace sennit::tests
