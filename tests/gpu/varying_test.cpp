// The v-forms on GPUs there are, driven by one thread: blocks from nothing to some megabytes, at
// places of any alignment.
#include "device_ranks.hpp"

#include <string>
#include <vector>

namespace sennit::tests {
namespace {

constexpr std::byte kUntouched{0xa5};

std::byte content(int rank, std::size_t at) {
  return static_cast<std::byte>((at * 7 + at / 251 + static_cast<std::size_t>(rank) * 37 + 1) &
                                0xff);
}

// Bytes that `from` sends to `to` in round `round`: small ones, large ones, and none.
std::size_t length(int from, int to, int round) {
  constexpr std::size_t kLengths[] = {0, 5, 1'000, 70'003, 700'016, 3'000'001};
  return kLengths[static_cast<std::size_t>(from * 5 + to * 3 + round) % std::size(kLengths)];
}

// One rank's blocks of one side: lengths by peer, places with gaps between them.
struct Side {
  std::vector<std::size_t> counts;
  std::vector<std::size_t> places;
  std::byte* memory = nullptr;
  std::size_t bytes = 0;

  void lay_out() {
    std::size_t at = 3;
    for (const std::size_t count : counts) {
      places.push_back(at);
      at += count + 13;
    }
    bytes = at;
    check_cuda(cudaMalloc(&memory, bytes));
  }
};

class DeviceVarying : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device_count() < 1) {
      GTEST_SKIP() << "gpu1: needs one GPU";
    }
    ranks_ = std::make_unique<DeviceRanks>(std::max(2, std::min(device_count(), 8)));
  }
  void TearDown() override {
    release();
    ranks_.reset();
  }

  [[nodiscard]] int size() const { return ranks_->size(); }
  void use_device(int rank) const { check_cuda(cudaSetDevice(rank % device_count())); }

  void release() {
    for (std::vector<Side>* const sides : {&inputs_, &outputs_}) {
      for (const Side& side : *sides) {
        check_cuda(cudaFree(side.memory));
      }
      sides->clear();
    }
  }

  // Buffers of all ranks; what a rank sends to each other begins at another place of its contents.
  void prepare(int round) {
    release();
    inputs_.assign(static_cast<std::size_t>(size()), {});
    outputs_.assign(static_cast<std::size_t>(size()), {});
    for (int rank = 0; rank < size(); ++rank) {
      use_device(rank);
      const auto at = static_cast<std::size_t>(rank);
      for (int peer = 0; peer < size(); ++peer) {
        inputs_[at].counts.push_back(length(rank, peer, round));
        outputs_[at].counts.push_back(length(peer, rank, round));
      }
      inputs_[at].lay_out();
      outputs_[at].lay_out();
      Bytes bytes(inputs_[at].bytes);
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = content(rank, i);
      }
      check_cuda(cudaMemcpy(inputs_[at].memory, bytes.data(), bytes.size(), cudaMemcpyDefault));
      check_cuda(cudaMemset(outputs_[at].memory, static_cast<int>(kUntouched), outputs_[at].bytes));
    }
    check_cuda(cudaDeviceSynchronize());
  }

  sennit_status_t state_of(int rank) {
    sennit_status_t state = SENNIT_OK;
    EXPECT_EQ(sennit_comm_async_error((*ranks_)[rank].comm, &state), SENNIT_OK);
    return state;
  }

  void expect(int rank) {
    const auto at = static_cast<std::size_t>(rank);
    use_device(rank);
    check_cuda(cudaStreamSynchronize((*ranks_)[rank].stream));
    Bytes found(outputs_[at].bytes);
    check_cuda(cudaMemcpy(found.data(), outputs_[at].memory, found.size(), cudaMemcpyDefault));
    Bytes expected(found.size(), kUntouched);
    for (int peer = 0; peer < size(); ++peer) {
      const auto from = static_cast<std::size_t>(peer);
      for (std::size_t i = 0; i < outputs_[at].counts[from]; ++i) {
        expected[outputs_[at].places[from] + i] = content(peer, inputs_[from].places[at] + i);
      }
    }
    ASSERT_TRUE(found == expected) << "rank " << rank;
    EXPECT_EQ(state_of(rank), SENNIT_OK);
  }

  sennit_status_t exchange(int rank, const sennit_call_options_t* options) {
    const auto at = static_cast<std::size_t>(rank);
    use_device(rank);
    return sennit_all_to_all_v(inputs_[at].memory,
                               inputs_[at].counts.data(),
                               inputs_[at].places.data(),
                               outputs_[at].memory,
                               outputs_[at].counts.data(),
                               outputs_[at].places.data(),
                               SENNIT_UINT8,
                               (*ranks_)[rank].comm,
                               (*ranks_)[rank].stream,
                               options);
  }

  std::unique_ptr<DeviceRanks> ranks_;
  std::vector<Side> inputs_;
  std::vector<Side> outputs_;
};

TEST_F(DeviceVarying, BlocksOfAnyLengthsAtAnyPlaces) {
  for (const char* protocol : {"", "ll", "ll128", "slots", "direct_put"}) {
    for (int round = 0; round < 6; ++round) {
      sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
      options.protocol = *protocol == '\0' ? nullptr : protocol;
      prepare(round);
      for (int call = 0; call < 3; ++call) {
        for (int rank = 0; rank < size(); ++rank) {
          ASSERT_EQ(exchange(rank, &options), SENNIT_OK) << sennit_last_error_message();
        }
      }
      for (int rank = 0; rank < size(); ++rank) {
        expect(rank);
      }
      ASSERT_FALSE(HasFailure()) << "protocol '" << protocol << "', round " << round;
    }
  }
}

// Others wait for a byte that will not come, until both ends are named.
TEST_F(DeviceVarying, NameTheTwoRanksThatMeanDifferentLengths) {
  prepare(0);
  ++inputs_[0].counts[1];
  for (int rank = 0; rank < size(); ++rank) {
    EXPECT_EQ(exchange(rank, nullptr), SENNIT_OK) << sennit_last_error_message();
  }
  for (int rank = 0; rank < size(); ++rank) {
    use_device(rank);
    EXPECT_EQ(cudaStreamSynchronize((*ranks_)[rank].stream), cudaSuccess);
  }
  for (const int rank : {0, 1}) {
    EXPECT_EQ(state_of(rank), SENNIT_MISMATCH);
    sennit_error_t error = {};
    error.struct_size = sizeof(error);
    EXPECT_EQ(sennit_comm_last_error((*ranks_)[rank].comm, &error), SENNIT_OK);
    EXPECT_NE(std::string(error.evidence).find("which expects"), std::string::npos)
        << error.evidence;
  }
}

}  // namespace
}  // namespace sennit::tests
