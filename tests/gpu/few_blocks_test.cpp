// Blocks of collectives that are stored in place by few thread blocks, or sent as packets, as each
// rank reaches the outputs of others or does not. Every rank is a process, so that outputs have to
// be mapped first.
#include "device_ranks.hpp"
#include "gpu_processes.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

namespace sennit::tests {
namespace {

// Of a block: beyond what the profile has few blocks for, and no whole number of any element.
constexpr std::size_t kCount = (std::size_t{13} << 20) + 13;

class Exchange {
 public:
  explicit Exchange(const GpuProcess& self)
      : self_(self),
        bytes_(static_cast<std::size_t>(self.ranks()) * kCount),
        comm_(self.join("few")) {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    check_cuda(cudaMalloc(&input_, bytes_));
    check_cuda(cudaMalloc(&output_, bytes_));
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

  // Other memory to receive in, which no peer has mapped.
  void renew() {
    check_cuda(cudaFree(output_));
    check_cuda(cudaMalloc(&output_, bytes_));
  }

  // Each call has other contents; all ranks make the same ones.
  void write() {
    ++calls_;
    const std::vector<std::uint64_t> words = input_of(self_.rank());
    check_cuda(cudaMemcpy(input_, words.data(), bytes_, cudaMemcpyHostToDevice));
    check_cuda(cudaMemset(output_, 0xa5, bytes_));
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
    Bytes found(bytes_);
    check_cuda(cudaStreamSynchronize(stream_));
    check_cuda(cudaMemcpy(found.data(), output_, found.size(), cudaMemcpyDeviceToHost));
    for (int source = 0; source < self_.ranks(); ++source) {
      const std::vector<std::uint64_t> sent = input_of(source);
      const std::size_t from =
          collective == Collective::kAllToAll ? static_cast<std::size_t>(self_.rank()) * kCount : 0;
      ASSERT_EQ(std::memcmp(found.data() + static_cast<std::size_t>(source) * kCount,
                            reinterpret_cast<const std::byte*>(sent.data()) + from,
                            kCount),
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
  // Around the ring, by all thread blocks, which use the same words and FIFOs.
  void run_messages() {
    const int next = (self_.rank() + 1) % self_.ranks();
    const int previous = (self_.rank() + self_.ranks() - 1) % self_.ranks();
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.protocol = "direct_put";
    write();
    ASSERT_EQ(sennit_group_start(), SENNIT_OK);
    for (std::size_t at = 0; at < bytes_; at += kCount) {
      EXPECT_EQ(sennit_send(input_ + at, kCount, SENNIT_UINT8, next, comm_, stream_, &options),
                SENNIT_OK);
      EXPECT_EQ(sennit_recv(output_ + at, kCount, SENNIT_UINT8, previous, comm_, stream_, &options),
                SENNIT_OK);
    }
    ASSERT_EQ(sennit_group_end(), SENNIT_OK) << sennit_last_error_message();
    Bytes found(bytes_);
    check_cuda(cudaStreamSynchronize(stream_));
    check_cuda(cudaMemcpy(found.data(), output_, found.size(), cudaMemcpyDeviceToHost));
    ASSERT_EQ(std::memcmp(found.data(), input_of(previous).data(), bytes_), 0)
        << "messages, " << calls_;
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
  // In whole words, which are quickly made: no two of all ranks and calls are equal.
  [[nodiscard]] std::vector<std::uint64_t> input_of(int rank) const {
    constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
    const auto from =
        (static_cast<std::uint64_t>(calls_) << 40U) + (static_cast<std::uint64_t>(rank) << 32U);
    std::vector<std::uint64_t> words(bytes_ / sizeof(std::uint64_t) + 1);
    for (std::size_t i = 0; i < words.size(); ++i) {
      words[i] = (from + i) * kOdd;
    }
    return words;
  }

  const GpuProcess& self_;
  std::size_t bytes_;  // of an input or an output
  sennit_comm_t comm_;
  cudaStream_t stream_ = nullptr;
  std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  int calls_ = 0;
};

// Two ranks, and four, each of which stores to the three others in turn.
class FewBlockProcesses : public testing::TestWithParam<int> {};

constexpr std::array kFamily = {Collective::kAllGather, Collective::kAllToAll};

// Of ranks that reach each other some take other memory.
TEST_P(FewBlockProcesses, MoveEveryByteWhicheverBufferIsReached) {
  if (gpu_ranks() < GetParam()) {
    GTEST_SKIP() << "gpu" << GetParam() << ": needs as many GPUs, or one that all share";
  }
  run_as_processes({.ranks = GetParam()}, [](GpuProcess& self) {
    Exchange exchange(self);
    for (const Collective collective : kFamily) {
      for (const unsigned renewed : {0U, 1U, 2U, (1U << static_cast<unsigned>(self.ranks())) - 1}) {
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
TEST_P(FewBlockProcesses, AreReplayedInTurnWithPackets) {
  if (gpu_ranks() < GetParam()) {
    GTEST_SKIP() << "gpu" << GetParam() << ": needs as many GPUs, or one that all share";
  }
  run_as_processes({.ranks = GetParam()}, [](GpuProcess& self) {
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

INSTANTIATE_TEST_SUITE_P(Ranks, FewBlockProcesses, testing::Values(2, 4), [](const auto& test) {
  return std::to_string(test.param) + "Ranks";
});

}  // namespace
}  // namespace sennit::tests
