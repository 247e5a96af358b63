// Messages that a kernel hands to a copy engine and a copy engine to another kernel, by words of
// 0 and 1 in host memory that their readers reset, as exec/stream uses them: the stream waits for a
// word of the kernel, copies what it stored, and stores words for both kernels. The copy goes
// straight to the other GPU, or to host memory.
//
// No program is weakened here, since none could fail on this hardware. What the first kernel stores
// lies in the cache of its own GPU, out of which the copy engine reads, long before a word,
// released or not, has crossed PCIe and been found by the stream. The words of the stream come
// after its copies by the driver's own doing; asked for without a fence, they still wait for the
// copy engine to say that it is done. That the second kernel acquires is seen to matter in
// litmus_blocks.cu.
#include "litmus.cuh"

#include <cuda.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <thread>

namespace sennit::litmus {
namespace {

constexpr int kThreads = 256;
constexpr int kUnitsEach = 4;
constexpr std::size_t kMessageBytes = std::size_t{kThreads} * kUnitsEach * sizeof(Unit);
constexpr int kRoundsOfGraph = 1000;  // a stream takes about as many graphs before it waits

struct Setup {
  Unit* message = nullptr;
  std::uint64_t* full = nullptr;   // signalled to the reader
  std::uint64_t* freed = nullptr;  // signalled to the writer
  int rounds = 0;
  Errors* errors = nullptr;
};

// Waits for 1 and makes it 0. False, for all threads, once the first has lost patience.
__device__ bool take_word(std::uint64_t* word, unsigned* stuck) {
  bool is_there = true;
  if (threadIdx.x == 0) {
    long long polls = 0;
    while (is_there && sm::load_acquire_system(word) == 0) {
      is_there = ++polls <= kPatienceOfTest;
    }
    if (is_there) {
      sm::store_relaxed_system(word, 0);
    } else {
      atomicAdd(stuck, 1u);
    }
  }
  return __syncthreads_and(threadIdx.x == 0 ? is_there : 1) != 0;
}

// All that the block has stored and loaded comes before.
__device__ void signal(std::uint64_t* word) {
  __syncthreads();
  if (threadIdx.x == 0) {
    sm::store_release_system(word, 1);
  }
}

__global__ void __launch_bounds__(kThreads) write_messages(Setup s) {
  const auto thread = static_cast<int>(threadIdx.x);
  for (int round = 0; round < s.rounds; ++round) {
    if (!take_word(s.freed, &s.errors->stuck_writers)) {
      return;
    }
    take_time(static_cast<std::uint64_t>(round), 1);
    for (int j = 0; j < kUnitsEach; ++j) {
      s.message[thread + j * kThreads] = content(static_cast<std::uint64_t>(round), thread, j);
    }
    signal(s.full);
  }
}

__global__ void __launch_bounds__(kThreads) read_messages(Setup s) {
  const auto thread = static_cast<int>(threadIdx.x);
  for (int round = 0; round < s.rounds; ++round) {
    if (!take_word(s.full, &s.errors->stuck_readers)) {
      return;
    }
    take_time(static_cast<std::uint64_t>(round), 2);
    bool is_stale = false;
    for (int j = 0; j < kUnitsEach; ++j) {
      is_stale |= !same(s.message[thread + j * kThreads],
                        content(static_cast<std::uint64_t>(round), thread, j));
    }
    if (__syncthreads_or(is_stale ? 1 : 0) != 0 && thread == 0) {
      atomicAdd(&s.errors->stale, 1u);
    }
    signal(s.freed);
  }
}

CUstreamBatchMemOpParams awaited(std::uint64_t* word, std::uint64_t value) {
  CUstreamBatchMemOpParams operation{};
  operation.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
  operation.waitValue.address = reinterpret_cast<CUdeviceptr>(word);
  operation.waitValue.value64 = value;
  operation.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  return operation;
}

CUstreamBatchMemOpParams stored(std::uint64_t* word, std::uint64_t value) {
  CUstreamBatchMemOpParams operation{};
  operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  operation.writeValue.address = reinterpret_cast<CUdeviceptr>(word);
  operation.writeValue.value64 = value;
  operation.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;  // with a fence before it
  return operation;
}

template <std::size_t kCount>
void walk(const std::array<CUstreamBatchMemOpParams, kCount>& steps, cudaStream_t stream) {
  static const auto kBatch = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    require(cudaGetDriverEntryPointByVersion(
                "cuStreamBatchMemOp", &found, 12000, cudaEnableDefault, &result),
            "driver");
    return reinterpret_cast<decltype(&cuStreamBatchMemOp)>(found);
  }();
  std::array<CUstreamBatchMemOpParams, kCount> operations = steps;
  if (kBatch == nullptr || kBatch(stream, kCount, operations.data(), 0) != CUDA_SUCCESS) {
    std::printf("litmus: the driver refuses operations on words\n");
    std::exit(2);
  }
}

cudaGraphExec_t graph_of(const Setup& from, const Setup& to, cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t rounds = nullptr;
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < kRoundsOfGraph; ++i) {
    walk(
        std::array{
            awaited(from.full, 1), stored(from.full, 0), awaited(to.freed, 1), stored(to.freed, 0)},
        stream);
    require(cudaMemcpyAsync(to.message, from.message, kMessageBytes, cudaMemcpyDefault, stream),
            "copy");
    walk(std::array{stored(to.full, 1), stored(from.freed, 1)}, stream);
  }
  require(cudaStreamEndCapture(stream, &graph), "capture");
  require(cudaGraphInstantiate(&rounds, graph, 0), "graph");
  require(cudaGraphDestroy(graph), "graph");
  require(cudaGraphUpload(rounds, stream), "graph");
  require(cudaStreamSynchronize(stream), "graph");
  return rounds;
}

// Once a kernel has given up, nobody else would end the stream's waits.
void await_stream(cudaStream_t stream, const Gpu& writer, const Gpu& reader, std::uint64_t* words) {
  const auto has_ended = [](cudaStream_t of) { return cudaStreamQuery(of) != cudaErrorNotReady; };
  while (!has_ended(stream)) {
    if (has_ended(writer.stream) && has_ended(reader.stream)) {
      for (int i = 0; i < 4; ++i) {
        *static_cast<volatile std::uint64_t*>(words + i * kWordsApart) = 1;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (const cudaStream_t each : {stream, writer.stream, reader.stream}) {
    require(cudaStreamSynchronize(each), "running");
  }
}

Unit* allocate_on(const Gpu& gpu) {
  Unit* message = nullptr;
  require(cudaSetDevice(gpu.device), "device");
  require(cudaMalloc(&message, kMessageBytes), "memory");
  require(cudaMemset(message, 0, kMessageBytes), "memory");
  require(cudaDeviceSynchronize(), "memory");
  return message;
}

void run(const Setup& from, const Setup& to, const std::vector<Gpu>& gpus, std::uint64_t* words) {
  const Gpu& writer = gpus[0];
  const Gpu& reader = gpus[1];
  cudaFuncAttributes attributes;  // loaded before anything runs that waits
  require(cudaSetDevice(reader.device), "device");
  require(cudaFuncGetAttributes(&attributes, read_messages), "loading");
  require(cudaSetDevice(writer.device), "device");
  require(cudaFuncGetAttributes(&attributes, write_messages), "loading");
  cudaStream_t copies = nullptr;
  require(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking), "stream");
  const cudaGraphExec_t graph = graph_of(from, to, copies);
  require(cudaSetDevice(reader.device), "device");
  read_messages<<<1, kThreads, 0, reader.stream>>>(to);
  require(cudaSetDevice(writer.device), "device");
  write_messages<<<1, kThreads, 0, writer.stream>>>(from);
  for (int i = 0; i < from.rounds; i += kRoundsOfGraph) {
    require(cudaGraphLaunch(graph, copies), "graph");
  }
  await_stream(copies, writer, reader, words);
  require(cudaGraphExecDestroy(graph), "graph");
  require(cudaStreamDestroy(copies), "stream");
}

bool holds(const std::vector<Gpu>& gpus, bool to_host, int rounds) {
  auto* const errors = reinterpret_cast<Errors*>(allocate_on_host(sizeof(Errors)));
  std::byte* const host = allocate_on_host(4096 + kMessageBytes);
  auto* const words = reinterpret_cast<std::uint64_t*>(host);
  Unit* const own = allocate_on(gpus[0]);
  Unit* const far = allocate_on(gpus[1]);
  const Setup from{.message = own,
                   .full = words,
                   .freed = words + kWordsApart,
                   .rounds = rounds,
                   .errors = errors};
  const Setup to{.message = to_host ? reinterpret_cast<Unit*>(host + 4096) : far,
                 .full = words + 2 * kWordsApart,
                 .freed = words + 3 * kWordsApart,
                 .rounds = rounds,
                 .errors = errors};
  *from.freed = 1;
  *to.freed = 1;
  run(from, to, gpus, words);
  const bool good = report(
      "kernel, copy, kernel", to_host ? "copies to host" : "copies to a peer", rounds, *errors);
  require(cudaFree(own), "memory");
  require(cudaFree(far), "memory");
  require(cudaFreeHost(host), "memory");
  require(cudaFreeHost(errors), "memory");
  return good;
}

}  // namespace

bool copies_hold(const std::vector<Gpu>& gpus, int rounds) {
  const int whole = (rounds + kRoundsOfGraph - 1) / kRoundsOfGraph * kRoundsOfGraph;
  const bool peers = holds(gpus, /*to_host=*/false, whole);
  return holds(gpus, /*to_host=*/true, whole) && peers;
}

}  // namespace sennit::litmus
