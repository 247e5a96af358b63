// Large messages of the only two ranks, which go through host memory in part by themselves: in
// groups that the ranks cut differently every byte arrives, whatever queues CUDA gives the streams.
#include "device_ranks.hpp"
#include "gpu_processes.hpp"

#include <array>
#include <string>
#include <vector>

namespace sennit::tests {
namespace {

constexpr std::size_t kBytes = (std::size_t{256} << 20) + 12;

// Two messages there and one back. Their bytes name them and their place.
enum Letter { kFirst, kSecond, kAnswer };

Bytes content(Letter letter, int round) {
  Bytes bytes(kBytes);
  const auto name = static_cast<std::size_t>(letter) * 5 + static_cast<std::size_t>(round) * 17;
  for (std::size_t i = 0; i < kBytes; ++i) {
    bytes[i] = static_cast<std::byte>((i * 31 + i / 65536 + name) & 0xff);
  }
  return bytes;
}

class Member {
 public:
  explicit Member(const GpuProcess& self) : comm_(self.join("pair")), other_(1 - self.rank()) {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    for (std::byte*& buffer : buffers_) {
      check_cuda(cudaMalloc(&buffer, kBytes));
    }
  }
  ~Member() {
    EXPECT_EQ(sennit_comm_destroy(comm_), SENNIT_OK);
    for (std::byte* const buffer : buffers_) {
      EXPECT_EQ(cudaFree(buffer), cudaSuccess);
    }
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  void write(Letter letter, int round) {
    check_cuda(cudaMemcpy(
        buffers_[letter], content(letter, round).data(), kBytes, cudaMemcpyHostToDevice));
  }
  void poison(Letter letter) { check_cuda(cudaMemset(buffers_[letter], 0xa5, kBytes)); }
  void check(Letter letter, int round) {
    Bytes found(kBytes);
    check_cuda(cudaMemcpy(found.data(), buffers_[letter], kBytes, cudaMemcpyDeviceToHost));
    ASSERT_TRUE(found == content(letter, round)) << "letter " << letter << ", round " << round;
  }

  void send(Letter letter) {
    EXPECT_EQ(sennit_send(buffers_[letter], kBytes, SENNIT_UINT8, other_, comm_, stream_, nullptr),
              SENNIT_OK)
        << sennit_last_error_message();
  }
  void recv(Letter letter) {
    EXPECT_EQ(sennit_recv(buffers_[letter], kBytes, SENNIT_UINT8, other_, comm_, stream_, nullptr),
              SENNIT_OK)
        << sennit_last_error_message();
  }
  void synchronize() { check_cuda(cudaStreamSynchronize(stream_)); }

 private:
  sennit_comm_t comm_;
  int other_;
  cudaStream_t stream_ = nullptr;
  std::array<std::byte*, 3> buffers_{};  // by letter
};

// All in one group, where the other rank makes each call by itself.
void ask(Member& member, int round) {
  member.write(kFirst, round);
  member.write(kSecond, round);
  member.poison(kAnswer);
  check_cuda(cudaDeviceSynchronize());
  ASSERT_EQ(sennit_group_start(), SENNIT_OK);
  member.send(kFirst);
  member.send(kSecond);
  member.recv(kAnswer);
  ASSERT_EQ(sennit_group_end(), SENNIT_OK) << sennit_last_error_message();
  member.synchronize();
  member.check(kAnswer, round);
}

void answer(Member& member, int round) {
  member.poison(kFirst);
  member.poison(kSecond);
  member.write(kAnswer, round);
  check_cuda(cudaDeviceSynchronize());
  member.recv(kFirst);
  member.recv(kSecond);
  member.send(kAnswer);
  member.synchronize();
  member.check(kFirst, round);
  member.check(kSecond, round);
}

class PairShares : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (gpu_ranks() == 0) {
      GTEST_SKIP() << "gpu1: needs one GPU";
    }
  }
};

TEST_P(PairShares, BringEveryByteHoweverTheRanksCutTheirGroups) {
  run_as_processes(
      {.ranks = 2, .environment = {std::string("CUDA_DEVICE_MAX_CONNECTIONS=") + GetParam()}},
      [](GpuProcess& self) {
        check_cuda(cudaSetDevice(self.device()));
        Member member(self);
        for (int round = 0; round < 8 && !testing::Test::HasFailure(); ++round) {
          const bool asks = round % 2 == self.rank();
          asks ? ask(member, round) : answer(member, round);
        }
      });
}

INSTANTIATE_TEST_SUITE_P(Queues, PairShares, ::testing::Values("8", "32", "1"));

}  // namespace
}  // namespace sennit::tests
