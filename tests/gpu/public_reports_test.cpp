// Public reports about other libraries, tried with GPU ranks that are processes. Each test
// names its report; docs/lab/2026-11-25-public-reports.md has the outcomes.
#include "call_buffer.hpp"
#include "gpu_processes.hpp"

#include <cuda.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace sennit::tests {
namespace {

constexpr double kEnded = 5.0;  // seconds that an abort or a destroy may take

// A function of the driver, as the runtime finds it.
template <class Function>
Function driver_function(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  check_cuda(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result));
  EXPECT_NE(found, nullptr) << name;
  return reinterpret_cast<Function>(found);
}

class PublicReports : public ::testing::Test {
 protected:
  void SetUp() override {
    if (gpu_ranks() == 0) {
      GTEST_SKIP() << "gpu1: needs one GPU";
    }
  }
  static void run(const std::function<void(GpuProcess&)>& body, GpuJob job = {}) {
    job.ranks = gpu_ranks();
    run_as_processes(job, body);
  }
};

// ---- Aborts ----

// github.com/NVIDIA/nccl/pull/564: while calls of two communicators wait, the first that is aborted
// and destroyed waits for the kernels of the second.
TEST_F(PublicReports, CommunicatorsThatWaitAreAbortedAndDestroyedOneAfterTheOther) {
  run([](GpuProcess& self) {
    const Buffer one(kSmall);
    const Buffer other(kSmall);
    const std::array comms = {self.join("one"), self.join("other")};
    expect_sum(self, comms[0], one);
    expect_sum(self, comms[1], other);
    if (self.rank() != 0) {  // rank 0 calls neither
      for (const sennit_status_t called :
           {all_reduce(comms[0], one), all_reduce(comms[1], other)}) {
        // Hosts wait for rank 0, until it aborts, where a GPU runs its ranks in turn.
        EXPECT_TRUE(called == SENNIT_OK || called == SENNIT_ABORTED) << sennit_last_error_message();
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    for (const sennit_comm_t comm : comms) {
      const double begin = GpuProcess::now();
      EXPECT_EQ(sennit_comm_abort(comm), SENNIT_OK);
      (void)sennit_comm_destroy(comm);  // may say that it was aborted
      EXPECT_LT(GpuProcess::now() - begin, kEnded);
    }
  });
}

// github.com/NVIDIA/nccl/issues/829: an abort by one thread and a synchronization of the device by
// another wait for each other.
TEST_F(PublicReports, AnAbortEndsTheWaitOfAThreadForTheDevice) {
  run([](GpuProcess& self) {
    const Buffer buffer(kSmall);
    const sennit_comm_t comm = self.join("waited for");
    expect_sum(self, comm, buffer);
    if (self.rank() != 0) {
      EXPECT_EQ(all_reduce(comm, buffer), SENNIT_OK) << sennit_last_error_message();
    }
    double ended_at = 0;
    std::jthread waiting([&] {
      check_cuda(cudaSetDevice(self.device()));
      check_cuda(cudaDeviceSynchronize());
      ended_at = GpuProcess::now();
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const double begin = GpuProcess::now();
    EXPECT_EQ(sennit_comm_abort(comm), SENNIT_OK);
    waiting.join();
    EXPECT_LT(ended_at - begin, kEnded);
    (void)sennit_comm_destroy(comm);
  });
}

// ---- Devices ----

void sum_on_the_first_device(GpuProcess& self) {
  check_cuda(cudaSetDevice(0));
  const Buffer small(kSmall);
  const Buffer large(kLarge);
  const sennit_comm_t comm = self.join("visible");
  expect_sum(self, comm, small);
  expect_sum(self, comm, large);
  EXPECT_EQ(exchange(self, comm, large.input(), large.output(), kLarge, large.stream()), SENNIT_OK)
      << sennit_last_error_message();
  large.expect(1 + previous_of(self));
  EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
}

// github.com/NVIDIA/nccl/issues/1948 and 1647: every process sees one GPU, number 0 of its own.
TEST_F(PublicReports, ProcessesThatSeeTheirOwnGpuAlone) {
  run(sum_on_the_first_device, {.visible = GpuJob::Visible::kOwn});
}

// github.com/meta-pytorch/monarch/pull/4628: processes number the same GPUs in different orders.
TEST_F(PublicReports, ProcessesThatNumberTheGpusDifferently) {
  run(sum_on_the_first_device, {.visible = GpuJob::Visible::kOwnFirst});
}

// github.com/pytorch/pytorch/issues/15051: a call goes by the device that is current, not by that
// of its buffers. Another one is current here, in the thread that calls, and stays so.
TEST_F(PublicReports, TheCurrentDeviceMayBeAnother) {
  if (device_count() < 2) {
    GTEST_SKIP() << "gpu2: needs two GPUs";
  }
  run([](GpuProcess& self) {
    const Buffer small(kSmall);
    const Buffer large(kLarge);
    const sennit_comm_t comm = self.join("current");
    const int other = (self.device() + 1) % device_count();
    for (const Buffer* const buffer : {&small, &large}) {
      buffer->fill(1 + static_cast<float>(self.rank()));
      check_cuda(cudaSetDevice(other));
      EXPECT_EQ(all_reduce(comm, *buffer), SENNIT_OK) << sennit_last_error_message();
      int current = -1;
      check_cuda(cudaGetDevice(&current));
      EXPECT_EQ(current, other);
      check_cuda(cudaSetDevice(self.device()));
      buffer->expect(sum_of_ranks(self));
    }
    check_cuda(cudaSetDevice(other));
    EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
    check_cuda(cudaSetDevice(self.device()));
  });
}

// github.com/meta-pytorch/torchcomms/pull/777: a watching thread, on which no device was chosen,
// makes a context on GPU 0 in every process, half a gigabyte each.
TEST_F(PublicReports, NoProcessHasAContextOnTheGpuOfAnother) {
  if (device_count() < 2) {
    GTEST_SKIP() << "gpu2: needs two GPUs";
  }
  run([](GpuProcess& self) {
    const Buffer small(kSmall);
    const Buffer large(kLarge);
    const sennit_comm_t comm = self.join("contexts");
    expect_sum(self, comm, small);
    expect_sum(self, comm, large);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // its watcher looks
    const auto state =
        driver_function<CUresult (*)(CUdevice, unsigned*, int*)>("cuDevicePrimaryCtxGetState");
    for (int device = 0; device < device_count(); ++device) {
      unsigned flags = 0;
      int is_active = -1;
      EXPECT_EQ(state(device, &flags, &is_active), CUDA_SUCCESS);
      EXPECT_EQ(is_active, device == self.device() ? 1 : 0) << "device " << device;
    }
    EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
  });
}

// ---- Memory ----

// github.com/NVIDIA/nccl/issues/604: each communicator that was made and destroyed has cost memory.
TEST_F(PublicReports, CommunicatorsGiveTheirMemoryBack) {
  run([](GpuProcess& self) {
    const Buffer buffer(kSmall);
    std::vector<std::size_t> free(12);
    for (std::size_t turn = 0; turn < free.size(); ++turn) {
      const sennit_comm_t comm = self.join("turn " + std::to_string(turn));
      expect_sum(self, comm, buffer);
      EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
      // All have destroyed it, and none has joined the next.
      const sennit_comm_t together = self.join("together " + std::to_string(turn));
      expect_sum(self, together, buffer);
      std::size_t total = 0;
      check_cuda(cudaMemGetInfo(&free[turn], &total));
      expect_sum(self, together, buffer);
      EXPECT_EQ(sennit_comm_destroy(together), SENNIT_OK);
    }
    constexpr std::size_t kSlack = std::size_t{8} << 20;
    EXPECT_GE(free.back() + kSlack, free[2]) << "bytes free after 3 and after 12 turns";
  });
}

// github.com/openucx/ucx/issues/7110, github.com/ofiwg/libfabric/issues/10162: memory of a pool
// cannot be announced to other processes as that of cudaMalloc is.
TEST_F(PublicReports, MemoryOfPoolsServes) {
  run([](GpuProcess& self) {
    const Buffer sizes(kLarge);
    const sennit_comm_t comm = self.join("pools");
    for (const std::size_t count : {kSmall, std::size_t{1} << 20, kLarge}) {
      float* in = nullptr;
      float* out = nullptr;
      check_cuda(cudaMallocAsync(&in, count * sizeof(float), sizes.stream()));
      check_cuda(cudaMallocAsync(&out, count * sizeof(float), sizes.stream()));
      const std::vector<float> mine(count, static_cast<float>(self.rank()));
      std::vector<float> got(count);
      check_cuda(cudaMemcpyAsync(
          in, mine.data(), count * sizeof(float), cudaMemcpyHostToDevice, sizes.stream()));
      EXPECT_EQ(exchange(self, comm, in, out, count, sizes.stream()), SENNIT_OK)
          << sennit_last_error_message();
      check_cuda(cudaMemcpyAsync(
          got.data(), out, count * sizeof(float), cudaMemcpyDeviceToHost, sizes.stream()));
      check_cuda(cudaStreamSynchronize(sizes.stream()));
      EXPECT_EQ(got, std::vector<float>(count, previous_of(self))) << count << " elements";
      check_cuda(cudaFreeAsync(in, sizes.stream()));
      check_cuda(cudaFreeAsync(out, sizes.stream()));
    }
    EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
  });
}

// github.com/openucx/ucx/pull/10405, github.com/uxlfoundation/oneCCL/issues/212: memory was freed,
// and other memory has its address; what others had mapped is no longer it.
TEST_F(PublicReports, MemoryAtTheAddressOfFreedMemoryIsNotTakenForIt) {
  run([](GpuProcess& self) {
    const sennit_comm_t comm = self.join("addresses");
    int same = 0;
    float* last = nullptr;
    for (int turn = 0; turn < 8; ++turn) {
      const Buffer buffer(turn / 2 % 2 == 0 ? kLarge : kLarge + kLarge / 2);
      same += buffer.input() == last ? 1 : 0;
      last = buffer.input();
      buffer.fill(static_cast<float>(10 * turn + self.rank()));
      EXPECT_EQ(
          exchange(self, comm, buffer.input(), buffer.output(), buffer.count(), buffer.stream()),
          SENNIT_OK)
          << sennit_last_error_message();
      buffer.expect(static_cast<float>(10 * turn) + previous_of(self));
      expect_sum(self, comm, buffer, static_cast<float>(turn));
    }
    EXPECT_GT(same, 0) << "no address came again: nothing was tried";
    EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
  });
}

// github.com/NVIDIA/nccl/issues/582: one rank has no memory left when it joins, and the others wait
// for it for ever. Here all of them work, or none.
TEST_F(PublicReports, ARankWithoutMemoryDoesNotLeaveTheOthersWaiting) {
  if (device_count() < 2) {
    GTEST_SKIP() << "gpu2: needs two GPUs";
  }
  run([](GpuProcess& self) {
    std::vector<void*> taken;
    if (self.rank() == 0) {
      check_cuda(cudaFree(nullptr));  // its context is there
      for (std::size_t bytes = std::size_t{1} << 36; bytes >= std::size_t{1} << 20; bytes /= 2) {
        void* memory = nullptr;
        while (cudaMalloc(&memory, bytes) == cudaSuccess) {
          taken.push_back(memory);
        }
        (void)cudaGetLastError();
      }
    }
    sennit_unique_id_t id;
    const std::string name = "full-" + std::to_string(::getppid());
    EXPECT_EQ(sennit_unique_id_from_text(&id, name.c_str()), SENNIT_OK);
    sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
    config.device = "cuda";
    sennit_comm_t comm = nullptr;
    const double begin = GpuProcess::now();
    const sennit_status_t status =
        sennit_comm_init_rank(&comm, self.ranks(), &id, self.rank(), &config);
    const std::string message = sennit_last_error_message();
    EXPECT_LT(GpuProcess::now() - begin, 30) << sennit_status_name(status);
    if (status != SENNIT_OK && self.rank() == 0) {
      EXPECT_NE(message.find("memory"), std::string::npos) << message;
    }
    for (void* const memory : taken) {
      check_cuda(cudaFree(memory));
    }
    // All have come to the same.
    const Buffer buffer(kSmall);
    const sennit_comm_t together = self.join("together");
    buffer.fill(status == SENNIT_OK ? 1 : 0);
    EXPECT_EQ(all_reduce(together, buffer), SENNIT_OK) << sennit_last_error_message();
    buffer.expect(status == SENNIT_OK ? static_cast<float>(self.ranks()) : 0);
    EXPECT_EQ(sennit_comm_destroy(together), SENNIT_OK);
    (void)sennit_comm_destroy(comm);
  });
}

// ---- Streams and graphs ----

// github.com/NVIDIA/nccl/issues/592 and 1347: two communicators of the same ranks, each with a
// stream of its own, whose calls wait for each other.
TEST_F(PublicReports, TwoCommunicatorsInTwoStreamsAtOnce) {
  run([](GpuProcess& self) {
    const std::array<Buffer, 2> buffers{Buffer(kSmall), Buffer(std::size_t{4} << 20)};
    const std::array comms = {self.join("one"), self.join("other")};
    for (int round = 0; round < 50; ++round) {
      for (std::size_t i = 0; i < comms.size(); ++i) {
        buffers[i].fill(static_cast<float>(round + self.rank()));
      }
      for (std::size_t i = 0; i < comms.size(); ++i) {
        const Buffer& b = buffers[i];
        EXPECT_EQ(exchange(self, comms[i], b.input(), b.output(), b.count(), b.stream()), SENNIT_OK)
            << sennit_last_error_message();
      }
      for (const Buffer& buffer : buffers) {
        buffer.expect(static_cast<float>(round) + previous_of(self));
      }
    }
    for (const sennit_comm_t comm : comms) {
      EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
    }
  });
}

// github.com/pytorch/pytorch/pull/104487: a thread of the library asks the driver for something
// while the program captures, which ends the capture of the strictest kind.
TEST_F(PublicReports, ACaptureGoesOnWhileCallsAreWatched) {
  run([](GpuProcess& self) {
    const Buffer watched(kLarge);
    const Buffer captured(kSmall);
    const sennit_comm_t comm = self.join("captures");
    expect_sum(self, comm, watched);
    expect_sum(self, comm, captured);
    for (int call = 0; call < 20; ++call) {
      EXPECT_EQ(all_reduce(comm, watched), SENNIT_OK) << sennit_last_error_message();
    }
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamBeginCapture(captured.stream(), cudaStreamCaptureModeGlobal));
    check_cuda(cudaMemsetAsync(captured.output(), 0, kSmall * sizeof(float), captured.stream()));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // its watcher looks
    check_cuda(cudaStreamEndCapture(captured.stream(), &graph));
    check_cuda(cudaGraphDestroy(graph));
    watched.expect(sum_of_ranks(self));
    EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
  });
}

// github.com/NVIDIA/cuopt/pull/1253: the program breaks its own capture, and goes on without.
TEST_F(PublicReports, CallsGoOnAfterACaptureThatFailed) {
  run([](GpuProcess& self) {
    const Buffer buffer(kSmall);
    const sennit_comm_t comm = self.join("captures");
    expect_sum(self, comm, buffer);
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamBeginCapture(buffer.stream(), cudaStreamCaptureModeThreadLocal));
    EXPECT_EQ(all_reduce(comm, buffer), SENNIT_OK) << sennit_last_error_message();
    EXPECT_NE(cudaStreamSynchronize(buffer.stream()), cudaSuccess);  // not while it captures
    EXPECT_NE(cudaStreamEndCapture(buffer.stream(), &graph), cudaSuccess);
    EXPECT_EQ(graph, nullptr);
    (void)cudaGetLastError();
    for (int call = 0; call < 5; ++call) {
      expect_sum(self, comm, buffer, static_cast<float>(call));
    }
    EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
  });
}

// github.com/pytorch/pytorch/issues/196133: replays between which the host waits for other work of
// the device, until one of them stands still.
TEST_F(PublicReports, ReplaysBetweenWaitsOfTheHostEnd) {
  run([](GpuProcess& self) {
    const Buffer buffer(kSmall);
    const Buffer other(kSmall);
    const sennit_comm_t comm = self.join("replays");
    expect_sum(self, comm, buffer);
    {  // the graph ends before its communicator
      const CapturedGraph replay(buffer.stream(), [&] {
        EXPECT_EQ(all_reduce(comm, buffer), SENNIT_OK) << sennit_last_error_message();
      });
      for (int turn = 0; turn < 2000; ++turn) {
        replay.launch();
        if (turn % 20 == self.rank()) {
          other.fill(static_cast<float>(turn));
        }
        if (turn % 50 == 0) {
          check_cuda(cudaDeviceSynchronize());
        }
      }
      buffer.expect(sum_of_ranks(self));
    }
    EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
  });
}

// ---- Fork ----

// github.com/pytorch/pytorch/issues/40403: a child of a process with CUDA fails in strange ways,
// and its parent with it. The child gets an error, and the parent goes on.
TEST_F(PublicReports, AForkedChildHasAnErrorAndItsParentGoesOn) {
  run([](GpuProcess& self) {
    const Buffer buffer(kSmall);
    const sennit_comm_t comm = self.join("parents");
    expect_sum(self, comm, buffer);
    const pid_t child = ::fork();
    if (child == 0) {
      const sennit_status_t status = all_reduce(comm, buffer);
      ::_exit(status == SENNIT_INVALID_USAGE ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "the child had another error, or none";
    for (int call = 0; call < 5; ++call) {
      expect_sum(self, comm, buffer, static_cast<float>(call));
    }
    EXPECT_EQ(sennit_comm_destroy(comm), SENNIT_OK);
  });
}

}  // namespace
}  // namespace sennit::tests
