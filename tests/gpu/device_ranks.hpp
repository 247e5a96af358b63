// For tests: ranks with a GPU each (or sharing those there are), driven by one thread, and the bits
// that a call must leave in their outputs, computed on the host.
#pragma once

#include "captured_graph.hpp"

#include "schedule/problem.hpp"
#include "sennit/sennit.h"
#include "types/reduce.hpp"

#include <gtest/gtest.h>

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace sennit::tests {

using Bytes = std::vector<std::byte>;

inline int device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

// A request for path nvlink as ranks have to make it here: for path device where they share the one
// GPU that there is.
const char* path_here(const char* path);

struct DeviceCase {
  Collective collective = Collective::kAllReduce;
  std::int64_t count = 0;
  Dtype dtype = Dtype::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  bool in_place = false;
  std::size_t offset = 0;  // elements in front of the buffers, to spoil their alignment
  const char* algorithm = nullptr;
  const char* protocol = nullptr;
  const char* path = nullptr;
  const char* codec = nullptr;
};

// Three of four are numbers of nearly one size, whose sums round, so that another order of operands
// would give other bits; the others any bits at all: NaN, infinities, what over- and underflows. Of
// integers and bool all are.
Bytes random_elements(Dtype dtype, std::int64_t count, std::mt19937_64& random);

// One rank's buffers on its device, and what they held before and must hold after a call.
class DeviceRank {
 public:
  DeviceRank(int rank, int ranks, int device);
  ~DeviceRank();
  DeviceRank(const DeviceRank&) = delete;
  DeviceRank& operator=(const DeviceRank&) = delete;

  sennit_comm_t comm = nullptr;
  cudaStream_t stream = nullptr;

  // Lays out the buffers of a case: input filled, output poisoned, guard bytes around both.
  void prepare(const DeviceCase& c, const Bytes& input);
  sennit_status_t call(const DeviceCase& c);
  // Output after everything in the stream; checks the guards.
  Bytes output(const DeviceCase& c);

  [[nodiscard]] void* send() const { return send_; }
  [[nodiscard]] void* recv() const { return recv_; }

 private:
  sennit_status_t call(const DeviceCase& c, sennit_redop_t op);
  void reserve(std::size_t bytes);

  int rank_;
  int ranks_;
  int device_;
  std::byte* memory_ = nullptr;
  std::size_t capacity_ = 0;
  std::byte* send_ = nullptr;
  std::byte* recv_ = nullptr;
  std::size_t output_bytes_ = 0;
};

class DeviceRanks {
 public:
  explicit DeviceRanks(int ranks);
  ~DeviceRanks();

  DeviceRank& operator[](int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }

  // Inputs of all ranks at random; makes the call on every rank; compares every byte of every
  // output.
  void run(const DeviceCase& c);
  // The same in two parts, so that many calls can be in flight.
  std::vector<Bytes> start(const DeviceCase& c);
  void finish(const DeviceCase& c, const std::vector<Bytes>& inputs);
  // Inputs at random, which lie where the calls read them.
  std::vector<Bytes> prepare(const DeviceCase& c);
  // Of each rank, in whose buffers all is ready.
  std::vector<CapturedGraph> capture(const DeviceCase& c, int calls);
  static void launch(const std::vector<CapturedGraph>& graphs, int times);
  // One call of each rank, captured and replayed, and its outputs compared.
  void replay(const DeviceCase& c, int times);

 private:
  std::vector<std::unique_ptr<DeviceRank>> ranks_;
  std::mt19937_64 random_{20261121};
};

std::size_t input_size(const DeviceCase& c, int rank, int ranks);
std::size_t output_size(const DeviceCase& c, int rank, int ranks);
Bytes expected_output(const DeviceCase& c, const std::vector<Bytes>& inputs, int rank);

// For tests that make the calls of all ranks on one thread: nothing waits on the host.
class GpuRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device_count() < 2) {
      GTEST_SKIP() << "gpu2: needs two GPUs";
    }
    ranks_ = std::make_unique<DeviceRanks>(std::min(device_count(), 8));
  }

  std::unique_ptr<DeviceRanks> ranks_;
};

// Ranks whose calls wait for each other on the host (copy engines), so each needs its thread.
class CopyEngineRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device_count() < 2) {
      GTEST_SKIP() << "gpu2: needs two GPUs";
    }
    setenv("SENNIT_COPY_ENGINES", "on", 1);
    ranks_ = std::make_unique<DeviceRanks>(std::min(device_count(), kMostRanks));
  }
  void TearDown() override {
    ranks_.reset();
    unsetenv("SENNIT_COPY_ENGINES");
  }

  // A call waits for those of the other ranks, so each makes it on a thread of its own.
  void run(const DeviceCase& c, int calls = 1) {
    const std::vector<Bytes> inputs = ranks_->prepare(c);
    {
      std::vector<std::jthread> threads;
      for (int rank = 0; rank < ranks_->size(); ++rank) {
        threads.emplace_back([&, rank] {
          for (int i = 0; i < calls; ++i) {
            EXPECT_EQ((*ranks_)[rank].call(c), SENNIT_OK) << sennit_last_error_message();
          }
        });
      }
    }
    ranks_->finish(c, inputs);
  }

  static constexpr int kMostRanks = 8;
  std::unique_ptr<DeviceRanks> ranks_;
  std::mt19937_64 random_{3};
};

}  // namespace sennit::tests
