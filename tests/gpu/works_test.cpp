// Works of GPU calls, on GPUs: a stream that a test holds up, and what its works say meanwhile.
#include "device_ranks.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

namespace sennit::tests {
namespace {

constexpr int kRanks = 2;

// A stream in which nothing goes on before open(), or the end of the scope.
class HeldStream {
 public:
  explicit HeldStream(cudaStream_t stream) : stream_(stream) {
    check_cuda(cudaLaunchHostFunc(stream, wait, &is_open_));
  }
  ~HeldStream() {
    open();
    check_cuda(cudaStreamSynchronize(stream_));
  }
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;

  void open() { is_open_ = true; }

 private:
  static void wait(void* is_open) {
    while (!*static_cast<std::atomic<bool>*>(is_open)) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  cudaStream_t stream_;
  std::atomic<bool> is_open_{false};
};

class GpuWorks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device_count() == 0) {
      GTEST_SKIP() << "gpu1: needs one GPU";
    }
    ranks_ = std::make_unique<DeviceRanks>(kRanks);
    inputs_ = ranks_->prepare(kSum);
    check_cuda(cudaStreamCreateWithFlags(&reader_, cudaStreamNonBlocking));
  }
  void TearDown() override {
    if (reader_ != nullptr) {
      check_cuda(cudaStreamDestroy(reader_));
    }
    ranks_.reset();
  }

  // The call of a rank, which has its device as current.
  sennit_work_t call(int rank) {
    use_device_of(rank);
    DeviceRank& self = (*ranks_)[rank];
    sennit_work_t work = nullptr;
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.work = &work;
    EXPECT_EQ(sennit_all_reduce(self.send(),
                                self.recv(),
                                kSum.count,
                                SENNIT_INT32,
                                SENNIT_SUM,
                                self.comm,
                                self.stream,
                                &options),
              SENNIT_OK)
        << sennit_last_error_message();
    return work;
  }

  static void use_device_of(int rank) { check_cuda(cudaSetDevice(rank % device_count())); }

  // The output of a rank, read in a stream that waits for no other one.
  Bytes read(int rank) {
    Bytes bytes(output_size(kSum, rank, kRanks));
    check_cuda(cudaMemcpyAsync(
        bytes.data(), (*ranks_)[rank].recv(), bytes.size(), cudaMemcpyDeviceToHost, reader_));
    check_cuda(cudaStreamSynchronize(reader_));
    return bytes;
  }

  static constexpr DeviceCase kSum{.count = 100'003, .dtype = Dtype::kInt32};
  std::unique_ptr<DeviceRanks> ranks_;
  std::vector<Bytes> inputs_;
  cudaStream_t reader_ = nullptr;
};

TEST_F(GpuWorks, EndWhenTheirStreamHasRunPastTheCall) {
  use_device_of(1);
  HeldStream held((*ranks_)[1].stream);
  const std::vector<sennit_work_t> works = {call(0), call(1)};
  for (sennit_work_t work : works) {
    int done = -1;
    EXPECT_EQ(sennit_work_wait(work, 0.05), SENNIT_IN_PROGRESS);
    EXPECT_EQ(sennit_work_test(work, &done), SENNIT_OK);
    EXPECT_EQ(done, 0);
  }
  held.open();
  for (int rank = 0; rank < kRanks; ++rank) {
    // On a thread without a device of its own.
    std::jthread([&] {
      EXPECT_EQ(sennit_work_wait(works[static_cast<std::size_t>(rank)], -1), SENNIT_OK)
          << sennit_last_error_message();
    }).join();
    use_device_of(rank);
    EXPECT_EQ(read(rank), expected_output(kSum, inputs_, rank)) << "rank " << rank;
    EXPECT_EQ(sennit_work_destroy(works[static_cast<std::size_t>(rank)]), SENNIT_OK);
  }
}

TEST_F(GpuWorks, OfCapturedCallsAreRefusedAndTheCaptureGoesOn) {
  use_device_of(0);
  DeviceRank& self = (*ranks_)[0];
  sennit_work_t work = nullptr;
  sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
  const auto make_call = [&] {
    return sennit_all_reduce(self.send(),
                             self.recv(),
                             kSum.count,
                             SENNIT_INT32,
                             SENNIT_SUM,
                             self.comm,
                             self.stream,
                             &options);
  };
  check_cuda(cudaStreamBeginCapture(self.stream, cudaStreamCaptureModeGlobal));
  options.work = &work;
  EXPECT_EQ(make_call(), SENNIT_INVALID_USAGE);
  EXPECT_EQ(work, nullptr);
  options.work = nullptr;
  EXPECT_EQ(make_call(), SENNIT_OK) << sennit_last_error_message();
  cudaGraph_t graph = nullptr;
  check_cuda(cudaStreamEndCapture(self.stream, &graph));
  std::size_t nodes = 0;
  check_cuda(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(nodes, 1U);
  check_cuda(cudaGraphDestroy(graph));
  // The other rank has made the captured call as well.
  use_device_of(1);
  DeviceRank& other = (*ranks_)[1];
  check_cuda(cudaStreamBeginCapture(other.stream, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(sennit_all_reduce(other.send(),
                              other.recv(),
                              kSum.count,
                              SENNIT_INT32,
                              SENNIT_SUM,
                              other.comm,
                              other.stream,
                              nullptr),
            SENNIT_OK);
  check_cuda(cudaStreamEndCapture(other.stream, &graph));
  check_cuda(cudaGraphDestroy(graph));
}

// A global capture forbids other threads to query events, but not the library.
TEST_F(GpuWorks, AreWaitedForBesideTheCaptureOfAnotherStream) {
  const std::vector<sennit_work_t> works = {call(0), call(1)};
  use_device_of(0);
  check_cuda(cudaStreamBeginCapture(reader_, cudaStreamCaptureModeGlobal));
  for (sennit_work_t work : works) {
    EXPECT_EQ(sennit_work_wait(work, -1), SENNIT_OK) << sennit_last_error_message();
    EXPECT_EQ(sennit_work_destroy(work), SENNIT_OK);
  }
  cudaGraph_t graph = nullptr;
  check_cuda(cudaStreamEndCapture(reader_, &graph));
  check_cuda(cudaGraphDestroy(graph));
}

TEST_F(GpuWorks, EndWithTheAbortOfTheirCommunicator) {
  sennit_work_t work = call(0);  // rank 1 does not come
  std::jthread aborting([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(sennit_comm_abort((*ranks_)[0].comm), SENNIT_OK);
  });
  EXPECT_EQ(sennit_work_wait(work, -1), SENNIT_ABORTED);
  aborting.join();
  EXPECT_EQ(sennit_work_destroy(work), SENNIT_OK);
  // Where the kernels have left, the buffers are nobody's.
  check_cuda(cudaStreamSynchronize((*ranks_)[0].stream));
}

}  // namespace
}  // namespace sennit::tests
