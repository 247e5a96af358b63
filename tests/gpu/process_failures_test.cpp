// How calls of GPU ranks that are processes fail: a rank that is killed in the middle, calls that
// differ, buffers of another device, an abort by another thread. What docs/errors.md promises of
// GPU ranks, by the clock; and that the CUDA contexts of those who are left can be used afterwards.
#include "device_ranks.hpp"
#include "gpu_processes.hpp"

#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace sennit::tests {
namespace {

constexpr double kTold = 5.0;  // seconds from the death to the last survivor that knows of it
constexpr double kPatience = 30.0;

class ProcessFailures : public ::testing::Test {
 protected:
  void SetUp() override {
    if (gpu_ranks() == 0) {
      GTEST_SKIP() << "gpu1: needs one GPU";
    }
  }
};

// What a rank calls over and over, on memory of its own device.
class Caller {
 public:
  static constexpr std::size_t kMostElements = std::size_t{40} << 20;

  Caller(const GpuProcess& self, sennit_comm_t comm) : self_(self), comm_(comm) {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    check_cuda(cudaMalloc(&in_, kMostElements * sizeof(float)));
    check_cuda(cudaMalloc(&out_, kMostElements * sizeof(float)));
    check_cuda(cudaMemset(in_, 0, kMostElements * sizeof(float)));
  }
  ~Caller() {
    check_cuda(cudaStreamSynchronize(stream_));
    (void)sennit_comm_destroy(comm_);  // one that has failed may say so
    check_cuda(cudaFree(in_));
    check_cuda(cudaFree(out_));
    check_cuda(cudaStreamDestroy(stream_));
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  [[nodiscard]] sennit_comm_t comm() const { return comm_; }
  [[nodiscard]] cudaStream_t stream() const { return stream_; }

  sennit_status_t all_reduce(std::size_t count) {
    return sennit_all_reduce(in_, out_, count, SENNIT_FLOAT32, SENNIT_SUM, comm_, stream_, nullptr);
  }
  // Of all ranks together, since the buffers are as long whatever their number.
  sennit_status_t large_all_gather(const char* protocol) {
    return all_gather((std::size_t{32} << 20) / static_cast<std::size_t>(self_.ranks()), protocol);
  }
  sennit_status_t all_gather(std::size_t count, const char* protocol) {
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.protocol = protocol;
    return sennit_all_gather(in_, out_, count, SENNIT_FLOAT32, comm_, stream_, &options);
  }
  // Around the ring of ranks.
  sennit_status_t exchange(std::size_t count) {
    const int next = (self_.rank() + 1) % self_.ranks();
    const int previous = (self_.rank() + self_.ranks() - 1) % self_.ranks();
    EXPECT_EQ(sennit_group_start(), SENNIT_OK);
    const sennit_status_t sent =
        sennit_send(in_, count, SENNIT_FLOAT32, next, comm_, stream_, nullptr);
    const sennit_status_t received =
        sennit_recv(out_, count, SENNIT_FLOAT32, previous, comm_, stream_, nullptr);
    const sennit_status_t ended = sennit_group_end();
    return sent != SENNIT_OK ? sent : received != SENNIT_OK ? received : ended;
  }

  // OK, or why the communicator has failed, after all that is in the stream.
  sennit_status_t finish() {
    check_cuda(cudaStreamSynchronize(stream_));
    sennit_status_t state = SENNIT_OK;
    EXPECT_EQ(sennit_comm_async_error(comm_, &state), SENNIT_OK);
    return state;
  }
  // How the communicator has failed; a call may fail a moment before.
  template <typename Call>
  sennit_status_t repeat_until_failure(Call call) {
    const double until = GpuProcess::now() + kPatience;
    sennit_status_t state = SENNIT_OK;
    for (bool may_call = true; state == SENNIT_OK && GpuProcess::now() < until; state = finish()) {
      if (may_call) {
        may_call = call(*this) == SENNIT_OK;
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }
    return state;
  }

  [[nodiscard]] sennit_error_t error() const {
    sennit_error_t error = SENNIT_ERROR_INITIALIZER;
    EXPECT_EQ(sennit_comm_last_error(comm_, &error), SENNIT_OK);
    return error;
  }

 private:
  const GpuProcess& self_;
  sennit_comm_t comm_;
  cudaStream_t stream_ = nullptr;
  float* in_ = nullptr;
  float* out_ = nullptr;
};

// Memory, copies, and the kernels of a new communicator of `ranks` ranks.
void expect_usable_context(const GpuProcess& self, int ranks, int rank) {
  const std::vector<float> ones(1000, 1.0F);
  std::vector<float> sums(ones.size());
  float* memory = nullptr;
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  check_cuda(cudaMalloc(&memory, ones.size() * sizeof(float)));
  check_cuda(cudaMemcpy(memory, ones.data(), ones.size() * sizeof(float), cudaMemcpyDefault));
  const sennit_comm_t comm = self.join("afterwards", ranks, rank);
  ASSERT_NE(comm, nullptr);
  EXPECT_EQ(sennit_all_reduce(
                memory, memory, ones.size(), SENNIT_FLOAT32, SENNIT_SUM, comm, stream, nullptr),
            SENNIT_OK)
      << sennit_last_error_message();
  check_cuda(cudaStreamSynchronize(stream));
  check_cuda(cudaMemcpy(sums.data(), memory, ones.size() * sizeof(float), cudaMemcpyDefault));
  EXPECT_EQ(sums, std::vector<float>(ones.size(), static_cast<float>(ranks)));
  EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
  check_cuda(cudaFree(memory));
  check_cuda(cudaStreamDestroy(stream));
}

// ---- Death ----

// What runs when the victim dies: each kind of kernel, copy engines, messages.
struct Work {
  const char* name;
  sennit_status_t (*call)(Caller&);
};
constexpr Work kWorks[] = {
    {"SmallCalls", [](Caller& c) { return c.all_reduce(100); }},
    {"LargeReductions", [](Caller& c) { return c.all_reduce(Caller::kMostElements); }},
    {"Stores", [](Caller& c) { return c.large_all_gather("direct_put"); }},
    {"CopyEngines", [](Caller& c) { return c.large_all_gather("copy_engines"); }},
    {"ShortMessages", [](Caller& c) { return c.exchange(1000); }},
    {"StoredMessages", [](Caller& c) { return c.exchange(std::size_t{4} << 20); }},
    {"CopiedMessages", [](Caller& c) { return c.exchange(Caller::kMostElements); }},
};

class ProcessDeaths : public ProcessFailures, public ::testing::WithParamInterface<Work> {};

TEST_P(ProcessDeaths, AreToldInTimeAndLeaveContextsUsable) {
  const int victim = gpu_ranks() - 1;
  run_as_processes({.ranks = gpu_ranks(), .victim = victim}, [&](GpuProcess& self) {
    {
      Caller caller(self, self.join("doomed"));
      if (self.rank() == victim) {
        for (int i = 0; i < 20; ++i) {
          EXPECT_EQ(GetParam().call(caller), SENNIT_OK) << sennit_last_error_message();
          EXPECT_EQ(caller.finish(), SENNIT_OK);
        }
        (void)GetParam().call(caller);
        GpuProcess::die();
      }
      const sennit_status_t state = caller.repeat_until_failure(GetParam().call);
      const double told_at = GpuProcess::now();
      const sennit_error_t error = caller.error();
      EXPECT_EQ(state, SENNIT_RANK_FAILED) << error.message;
      EXPECT_EQ(std::vector(error.blamed_ranks, error.blamed_ranks + error.blamed_count),
                std::vector{victim});
      EXPECT_LT(told_at - GpuProcess::died_at(), kTold);
    }
    expect_usable_context(self, self.ranks() - 1, self.rank());
  });
}

INSTANTIATE_TEST_SUITE_P(Works, ProcessDeaths, ::testing::ValuesIn(kWorks), [](const auto& work) {
  return std::string(work.param.name);
});

// Nobody may wait for a call that the dead rank would have had a part in, while graphs hold more.
TEST_F(ProcessFailures, ADeathEndsGraphsThatAreUnderWay) {
  const int victim = gpu_ranks() - 1;
  run_as_processes({.ranks = gpu_ranks(), .victim = victim}, [&](GpuProcess& self) {
    {
      Caller caller(self, self.join("doomed"));
      const CapturedGraph replay(caller.stream(), [&] {
        for (int i = 0; i < 100; ++i) {
          EXPECT_EQ(caller.all_reduce(10'000), SENNIT_OK) << sennit_last_error_message();
        }
      });
      replay.launch((self.rank() == victim ? 50 : 200));
      if (self.rank() == victim) {
        GpuProcess::die();
      }
      const sennit_status_t status = caller.finish();
      EXPECT_EQ(status, SENNIT_RANK_FAILED) << sennit_status_name(status);
      EXPECT_LT(GpuProcess::now() - GpuProcess::died_at(), kTold);
    }
    expect_usable_context(self, self.ranks() - 1, self.rank());
  });
}

// ---- Calls that differ ----

TEST_F(ProcessFailures, CollectivesThatDifferAreNamedWithBothCalls) {
  run_as_processes({.ranks = gpu_ranks()}, [](GpuProcess& self) {
    {
      Caller caller(self, self.join("different"));
      EXPECT_EQ(caller.all_reduce(1000), SENNIT_OK) << sennit_last_error_message();
      EXPECT_EQ(caller.finish(), SENNIT_OK);
      const double begin = GpuProcess::now();
      (void)(self.rank() == 0 ? caller.all_gather(1000, nullptr) : caller.all_reduce(1000));
      const sennit_status_t status = caller.finish();
      EXPECT_EQ(status, SENNIT_MISMATCH) << sennit_status_name(status);
      EXPECT_LT(GpuProcess::now() - begin, kTold);
      const std::string_view evidence = caller.error().evidence;
      EXPECT_NE(evidence.find("all_gather of 1000"), std::string_view::npos) << evidence;
      EXPECT_NE(evidence.find("all_reduce of 1000"), std::string_view::npos) << evidence;
      EXPECT_EQ(caller.all_reduce(1000), SENNIT_MISMATCH);
    }
    expect_usable_context(self, self.ranks(), self.rank());
  });
}

// ---- Pointers ----

// Refused on every rank alike, before anything is put into a stream, so that all may go on.
TEST_F(ProcessFailures, ABufferOfAnotherDeviceIsRefusedByName) {
  if (device_count() < 2) {
    GTEST_SKIP() << "gpu2: needs two GPUs";
  }
  run_as_processes({.ranks = gpu_ranks()}, [](GpuProcess& self) {
    Caller caller(self, self.join("devices"));
    const int other = (self.device() + 1) % device_count();
    float* theirs = nullptr;
    check_cuda(cudaSetDevice(other));
    check_cuda(cudaMalloc(&theirs, 4000));
    check_cuda(cudaSetDevice(self.device()));
    EXPECT_EQ(sennit_all_reduce(theirs,
                                theirs,
                                1000,
                                SENNIT_FLOAT32,
                                SENNIT_SUM,
                                caller.comm(),
                                caller.stream(),
                                nullptr),
              SENNIT_INVALID_ARGUMENT);
    const std::string message = sennit_last_error_message();
    EXPECT_NE(message.find("lies on device " + std::to_string(other) +
                           ", but this rank works on device " + std::to_string(self.device())),
              std::string::npos)
        << message;
    EXPECT_EQ(caller.all_reduce(1000), SENNIT_OK) << sennit_last_error_message();
    EXPECT_EQ(caller.finish(), SENNIT_OK);
    check_cuda(cudaFree(theirs));
  });
}

// ---- Abort ----

// All wait for the last rank, which never calls.
TEST_F(ProcessFailures, AnAbortByAnotherThreadEndsTheWaitsOfAllRanks) {
  run_as_processes({.ranks = gpu_ranks()}, [](GpuProcess& self) {
    {
      Caller caller(self, self.join("aborted"));
      EXPECT_EQ(caller.all_reduce(1000), SENNIT_OK) << sennit_last_error_message();
      EXPECT_EQ(caller.finish(), SENNIT_OK);
      std::jthread aborting;
      const double begin = GpuProcess::now();
      if (self.rank() == 0) {
        aborting = std::jthread([&caller] {
          std::this_thread::sleep_for(std::chrono::milliseconds(500));
          EXPECT_EQ(sennit_comm_abort(caller.comm()), SENNIT_OK);
        });
      }
      if (self.rank() != self.ranks() - 1) {
        // Of ranks that share a GPU in turn the call itself waits for the last.
        const sennit_status_t called = caller.all_reduce(1'000'000);
        EXPECT_TRUE(called == SENNIT_OK || called == SENNIT_ABORTED) << sennit_last_error_message();
      }
      // Who waits for nobody gets the error with its next call. It stays until the others have it.
      if (self.rank() == self.ranks() - 1) {
        std::this_thread::sleep_for(std::chrono::seconds(3));
      } else {
        sennit_status_t status = SENNIT_OK;
        while (status == SENNIT_OK && GpuProcess::now() - begin < kPatience) {
          status = caller.finish();
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        EXPECT_EQ(status, SENNIT_ABORTED) << sennit_status_name(status);
        EXPECT_LT(GpuProcess::now() - begin, kTold);
      }
    }
    expect_usable_context(self, self.ranks(), self.rank());
  });
}

}  // namespace
}  // namespace sennit::tests
