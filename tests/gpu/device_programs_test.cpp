// What programs for NCCL rely on, on GPUs: calls of one communicator in several streams, in default
// streams, factors in GPU memory, memory of any kind, and memory from the library.
#include "device_ranks.hpp"
#include "gpu_processes.hpp"
#include "late_writer.hpp"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace sennit::tests {
namespace {

constexpr int kRanks = 4;

bool lacks_gpu() { return device_count() == 0; }

void use_device_of(int rank) { check_cuda(cudaSetDevice(rank % device_count())); }

// One of each rank's buffers.
class Floats {
 public:
  Floats(int rank, std::size_t count) : count_(count) {
    const std::string device = "cuda:" + std::to_string(rank % device_count());
    EXPECT_EQ(sennit_mem_alloc_on(&memory_, count * sizeof(float), device.c_str()), SENNIT_OK)
        << sennit_last_error_message();
  }
  ~Floats() { EXPECT_EQ(sennit_mem_free(memory_), SENNIT_OK); }
  Floats(Floats&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), count_(other.count_) {}
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  Floats& operator=(Floats&&) = delete;

  [[nodiscard]] void* get() const { return memory_; }
  void set(float value, cudaStream_t stream) const {
    const std::vector<float> all(count_, value);
    check_cuda(cudaMemcpyAsync(
        memory_, all.data(), count_ * sizeof(float), cudaMemcpyHostToDevice, stream));
  }
  [[nodiscard]] std::vector<float> read() const {
    std::vector<float> all(count_);
    check_cuda(cudaDeviceSynchronize());
    check_cuda(cudaMemcpy(all.data(), memory_, count_ * sizeof(float), cudaMemcpyDeviceToHost));
    return all;
  }

 private:
  void* memory_ = nullptr;
  std::size_t count_;
};

TEST(DevicePrograms, MemoryOfTheLibraryIsOfTheDevice) {
  if (lacks_gpu()) {
    GTEST_SKIP() << "gpu1: needs one GPU";
  }
  const Floats floats(0, 1000);
  cudaPointerAttributes facts{};
  check_cuda(cudaPointerGetAttributes(&facts, floats.get()));
  EXPECT_EQ(facts.type, cudaMemoryTypeDevice);
  EXPECT_EQ(facts.device, 0);
}

// Without an order two kernels of a rank would use one FIFO at once.
TEST(DevicePrograms, CallsInTwoStreamsRunInTheirOrder) {
  if (lacks_gpu()) {
    GTEST_SKIP() << "gpu1: needs one GPU";
  }
  constexpr int kCalls = 60;
  constexpr std::size_t kCount = 200'003;
  DeviceRanks ranks(kRanks);
  std::vector<cudaStream_t> second(kRanks);
  std::vector<std::vector<Floats>> buffers(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    use_device_of(rank);
    check_cuda(cudaStreamCreateWithFlags(&second[r], cudaStreamNonBlocking));
    for (int i = 0; i < kCalls; ++i) {
      buffers[r].emplace_back(rank, kCount);
      buffers[r].back().set(static_cast<float>(i + rank), nullptr);
    }
    check_cuda(cudaDeviceSynchronize());
  }
  for (std::size_t i = 0; i < kCalls; ++i) {
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      void* const x = buffers[r][i].get();
      cudaStream_t const stream = i % 2 == 0 ? ranks[rank].stream : second[r];
      ASSERT_EQ(sennit_all_reduce(
                    x, x, kCount, SENNIT_FLOAT32, SENNIT_SUM, ranks[rank].comm, stream, nullptr),
                SENNIT_OK)
          << sennit_last_error_message();
    }
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    use_device_of(rank);
    for (std::size_t i = 0; i < kCalls; ++i) {
      const auto sum = static_cast<float>(kRanks * i + 6);
      ASSERT_EQ(buffers[r][i].read(), std::vector<float>(kCount, sum)) << rank << ", call " << i;
    }
    check_cuda(cudaStreamDestroy(second[r]));
  }
}

TEST(DevicePrograms, AFactorOnTheDeviceIsReadWhenTheCallRuns) {
  if (lacks_gpu()) {
    GTEST_SKIP() << "gpu1: needs one GPU";
  }
  constexpr std::size_t kCount = 5003;
  DeviceRanks ranks(kRanks);
  std::vector<Floats> x;
  std::vector<Floats> factors;
  std::vector<sennit_redop_t> ops(kRanks, SENNIT_SUM);
  // Before any call: ranks may share a device, and memory is not allocated beside a kernel that
  // waits for a rank which this thread has still to call for.
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    use_device_of(rank);
    x.emplace_back(rank, kCount);
    x.back().set(1, ranks[rank].stream);
    factors.emplace_back(rank, 1);
    ASSERT_EQ(sennit_redop_create_premulsum_on_device(
                  &ops[r], factors.back().get(), SENNIT_FLOAT32, ranks[rank].comm),
              SENNIT_OK);
    factors.back().set(static_cast<float>(rank + 1), ranks[rank].stream);
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    use_device_of(rank);
    ASSERT_EQ(sennit_all_reduce(x[r].get(),
                                x[r].get(),
                                kCount,
                                SENNIT_FLOAT32,
                                ops[r],
                                ranks[rank].comm,
                                ranks[rank].stream,
                                nullptr),
              SENNIT_OK)
        << sennit_last_error_message();
    EXPECT_EQ(sennit_redop_destroy(ops[r], ranks[rank].comm), SENNIT_OK);
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    use_device_of(rank);
    EXPECT_EQ(x[static_cast<std::size_t>(rank)].read(), std::vector<float>(kCount, 10));
  }
}

// One all_reduce of ones, in place, in each rank's memory and stream.
void sum_ones(DeviceRanks& ranks,
              const std::vector<void*>& memory,
              const std::vector<cudaStream_t>& streams,
              std::size_t count) {
  const std::vector<float> ones(count, 1.0F);
  for (int rank = 0; rank < ranks.size(); ++rank) {
    use_device_of(rank);
    check_cuda(cudaMemcpy(memory[static_cast<std::size_t>(rank)],
                          ones.data(),
                          count * sizeof(float),
                          cudaMemcpyDefault));
    check_cuda(cudaDeviceSynchronize());
  }
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    use_device_of(rank);
    ASSERT_EQ(sennit_all_reduce(memory[r],
                                memory[r],
                                count,
                                SENNIT_FLOAT32,
                                SENNIT_SUM,
                                ranks[rank].comm,
                                streams[r],
                                nullptr),
              SENNIT_OK)
        << sennit_last_error_message();
  }
  for (int rank = 0; rank < ranks.size(); ++rank) {
    use_device_of(rank);
    check_cuda(cudaDeviceSynchronize());
    std::vector<float> sums(count);
    check_cuda(cudaMemcpy(sums.data(),
                          memory[static_cast<std::size_t>(rank)],
                          count * sizeof(float),
                          cudaMemcpyDefault));
    EXPECT_EQ(sums, std::vector<float>(count, static_cast<float>(ranks.size())));
  }
}

TEST(DevicePrograms, PinnedAndManagedMemoryServesAndPageableIsRefused) {
  if (lacks_gpu()) {
    GTEST_SKIP() << "gpu1: needs one GPU";
  }
  DeviceRanks ranks(kRanks);
  std::vector<cudaStream_t> streams;
  for (int rank = 0; rank < kRanks; ++rank) {
    streams.push_back(ranks[rank].stream);
  }
  for (const std::size_t count : {5, 100'003}) {
    std::vector<void*> pinned(kRanks);
    std::vector<void*> managed(kRanks);
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      use_device_of(rank);
      check_cuda(cudaMallocHost(&pinned[r], count * sizeof(float)));
      check_cuda(cudaMallocManaged(&managed[r], count * sizeof(float)));
    }
    sum_ones(ranks, pinned, streams, count);
    sum_ones(ranks, managed, streams, count);
    for (int rank = 0; rank < kRanks; ++rank) {
      check_cuda(cudaFreeHost(pinned[static_cast<std::size_t>(rank)]));
      check_cuda(cudaFree(managed[static_cast<std::size_t>(rank)]));
    }
  }
  std::vector<float> pageable(100);
  EXPECT_EQ(sennit_all_reduce(pageable.data(),
                              pageable.data(),
                              pageable.size(),
                              SENNIT_FLOAT32,
                              SENNIT_SUM,
                              ranks[0].comm,
                              streams[0],
                              nullptr),
            SENNIT_INVALID_ARGUMENT);
  EXPECT_NE(std::string(sennit_last_error_message()).find("ordinary host memory"),
            std::string::npos);
}

// Of ranks that share a GPU the calls would wait for each other in one stream.
TEST(DevicePrograms, DefaultStreamsServe) {
  if (device_count() < 2) {
    GTEST_SKIP() << "gpu2: needs two GPUs";
  }
  DeviceRanks ranks(std::min(device_count(), kRanks));
  constexpr std::size_t kCount = 70'001;
  std::vector<void*> memory(static_cast<std::size_t>(ranks.size()));
  for (int rank = 0; rank < ranks.size(); ++rank) {
    use_device_of(rank);
    check_cuda(cudaMalloc(&memory[static_cast<std::size_t>(rank)], kCount * sizeof(float)));
  }
  for (cudaStream_t const stream :
       {static_cast<cudaStream_t>(nullptr), cudaStreamLegacy, cudaStreamPerThread}) {
    sum_ones(ranks, memory, std::vector(memory.size(), stream), kCount);
  }
  for (int rank = 0; rank < ranks.size(); ++rank) {
    use_device_of(rank);
    check_cuda(cudaFree(memory[static_cast<std::size_t>(rank)]));
  }
}

TEST(DevicePrograms, AWrongWordAboutEarlyLaunchesIsRefused) {
  if (lacks_gpu()) {
    GTEST_SKIP() << "gpu1: needs one GPU";
  }
  run_as_processes({.ranks = 1, .environment = {"SENNIT_EARLY_LAUNCHES=maybe"}}, [](GpuProcess&) {
    void* memory = nullptr;
    EXPECT_EQ(sennit_mem_alloc_on(&memory, 1, "cuda:0"), SENNIT_INVALID_ARGUMENT);
    EXPECT_NE(std::string(sennit_last_error_message()).find("SENNIT_EARLY_LAUNCHES"),
              std::string::npos)
        << sennit_last_error_message();
  });
}

#if CUDART_VERSION >= 12030
std::vector<cudaGraphEdgeData> edges_of(cudaGraph_t graph) {
#if CUDART_VERSION >= 13000
  const auto ask = [&](auto... arguments) { return cudaGraphGetEdges(graph, arguments...); };
#else
  const auto ask = [&](auto... arguments) { return cudaGraphGetEdges_v2(graph, arguments...); };
#endif
  std::size_t count = 0;
  check_cuda(ask(nullptr, nullptr, nullptr, &count));
  std::vector<cudaGraphNode_t> from(count);
  std::vector<cudaGraphNode_t> to(count);
  std::vector<cudaGraphEdgeData> edges(count);
  check_cuda(ask(from.data(), to.data(), edges.data(), &count));
  return edges;
}

// Of the edges between calls that follow each other in a graph, those that let one begin early.
void expect_programmatic_edges(int expected) {
  constexpr int kCalls = 3;
  DeviceRanks ranks(2);
  const DeviceCase c{.collective = Collective::kAllReduce, .count = 100};
  ranks.run(c);
  for (int rank = 0; rank < ranks.size(); ++rank) {
    use_device_of(rank);
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamBeginCapture(ranks[rank].stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < kCalls; ++i) {
      EXPECT_EQ(ranks[rank].call(c), SENNIT_OK) << sennit_last_error_message();
    }
    check_cuda(cudaStreamEndCapture(ranks[rank].stream, &graph));
    const std::vector<cudaGraphEdgeData> edges = edges_of(graph);
    EXPECT_EQ(edges.size(), kCalls - 1);
    EXPECT_EQ(
        std::ranges::count(edges, cudaGraphDependencyTypeProgrammatic, &cudaGraphEdgeData::type),
        expected);
    check_cuda(cudaGraphDestroy(graph));
  }
}

// In a build that has code for the device.
bool launches_early() {
  cudaDeviceProp facts{};
  check_cuda(cudaGetDeviceProperties(&facts, 0));
  int driver = 0;
  check_cuda(cudaDriverGetVersion(&driver));
  return facts.major >= 9 && driver >= 12030;
}

// In programs of their own: a program in which kernels are launched in turn keeps to that.
TEST(DevicePrograms, AreCapturedWithProgrammaticEdges) {
  if (lacks_gpu()) {
    GTEST_SKIP() << "gpu1: needs one GPU";
  }
  run_as_processes({.ranks = 1, .environment = {"SENNIT_EARLY_LAUNCHES=1"}},
                   [](GpuProcess&) { expect_programmatic_edges(launches_early() ? 2 : 0); });
}

TEST(DevicePrograms, AreCapturedWithoutProgrammaticEdgesOnDemand) {
  if (lacks_gpu()) {
    GTEST_SKIP() << "gpu1: needs one GPU";
  }
  run_as_processes({.ranks = 1, .environment = {"SENNIT_EARLY_LAUNCHES=0"}},
                   [](GpuProcess&) { expect_programmatic_edges(0); });
}
#endif

// A call that is launched early waits for the input that it was enqueued behind.
TEST(DevicePrograms, WaitForWhatLetsThemBeginEarly) {
  if (lacks_gpu()) {
    GTEST_SKIP() << "gpu1: needs one GPU";
  }
  DeviceRanks ranks(kRanks);
  for (const auto& [collective, count, algorithm, protocol] :
       {std::tuple(Collective::kAllReduce, 100, "one_shot", "ll"),
        std::tuple(Collective::kAllGather, 10'000, "direct", "ll"),
        std::tuple(Collective::kAllReduce, 100'000, "two_shot", "ll128"),
        std::tuple(Collective::kReduceScatter, 100'000, "direct", "slots"),
        std::tuple(Collective::kAllReduce, 100'000, "ring", "slots"),
        std::tuple(Collective::kAllToAll, 100'000, "direct", "direct_put")}) {
    // A ring adds in an order of its own.
    const DeviceCase c{.collective = collective,
                       .count = count,
                       .dtype = Dtype::kInt32,
                       .algorithm = algorithm,
                       .protocol = protocol};
    SCOPED_TRACE(fmt::format("{} {} by {}", algorithm, name(collective), protocol));
    const std::vector<Bytes> inputs = ranks.prepare(c);
    std::vector<std::byte*> kept(static_cast<std::size_t>(ranks.size()));
    for (int rank = 0; rank < ranks.size(); ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      use_device_of(rank);
      check_cuda(cudaMalloc(&kept[r], inputs[r].size()));
      check_cuda(cudaMemcpy(kept[r], ranks[rank].send(), inputs[r].size(), cudaMemcpyDefault));
      check_cuda(cudaMemset(ranks[rank].send(), 0x7e, inputs[r].size()));
      check_cuda(cudaDeviceSynchronize());
    }
    for (int rank = 0; rank < ranks.size(); ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      use_device_of(rank);
      check_cuda(copy_late(static_cast<std::byte*>(ranks[rank].send()),
                           kept[r],
                           inputs[r].size(),
                           ranks[rank].stream));
      EXPECT_EQ(ranks[rank].call(c), SENNIT_OK) << sennit_last_error_message();
    }
    ranks.finish(c, inputs);
    for (int rank = 0; rank < ranks.size(); ++rank) {
      use_device_of(rank);
      check_cuda(cudaFree(kept[static_cast<std::size_t>(rank)]));
    }
  }
}

}  // namespace
}  // namespace sennit::tests
