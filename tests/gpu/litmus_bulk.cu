// Messages of a block that bulk copies move (exec/sm/bulk_copy.cuh): all threads write the source,
// one moves it through shared memory to the other GPU and then publishes a word there; all threads
// of the reader load it once a word has been seen.
//
// No weakened program stands beside them: one that waited until the stores had read their stages
// only (wait_group.read) held in 100 000 rounds on two H200s. That the word comes behind what
// wait_group has seen done is what PTX promises, and what is relied upon.
#include "litmus.cuh"

#include "exec/sm/bulk_copy.cuh"

#include <algorithm>

namespace sennit::litmus {
namespace {

using sm::kThreads;

constexpr int kSlices = sm::kBulkStages + 4;  // stages are used again
constexpr std::size_t kMessageBytes = std::size_t{kSlices} * sm::kBulkBytes;
constexpr int kUnitsEach = static_cast<int>(kMessageBytes / sizeof(Unit)) / kThreads;
constexpr int kRoundsForOne = 10;  // of packets, which are so much shorter

struct Setup {
  Unit* source = nullptr;           // where the writer is
  std::byte* slots = nullptr;       // two messages, where the reader is
  std::uint64_t* filled = nullptr;  // beside them
  std::uint64_t* begun = nullptr;   // where the writer is
  int rounds = 0;
  Slow slow = kBoth;
  Errors* errors = nullptr;
};

__device__ std::byte* slot_of(const Setup& s, std::uint64_t round) {
  return s.slots + (round & 1) * kMessageBytes;
}

// False, for all threads, once the first has lost patience.
__device__ bool await_word(const std::uint64_t* word, std::uint64_t least, unsigned* stuck) {
  bool is_there = true;
  if (threadIdx.x == 0) {
    long long polls = 0;
    while (is_there && sm::load_acquire_system(word) < least) {
      is_there = ++polls <= kPatienceOfTest;
    }
    if (!is_there) {
      atomicAdd(stuck, 1u);
    }
  }
  return __syncthreads_and(threadIdx.x == 0 ? is_there : 1) != 0;
}

__global__ void __launch_bounds__(kThreads) write_in_bulk(Setup s) {
  const auto thread = static_cast<int>(threadIdx.x);
  for (std::uint64_t round = 1; round <= static_cast<std::uint64_t>(s.rounds); ++round) {
    if (s.slow != kReader) {
      take_time(round, 1);
    }
    // Who has begun round k - 1 has read round k - 2, whose slot this one takes.
    if (!await_word(s.begun, round - 1, &s.errors->stuck_writers)) {
      return;
    }
    for (int j = 0; j < kUnitsEach; ++j) {
      s.source[j * kThreads + thread] = content(round, thread, j);
    }
    // Between kernels their end does that.
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if constexpr (sm::kHasBulkCopies) {
      if (thread == 0) {
        const sm::Cut<Unit> cut(0, kMessageBytes);
        sm::BulkCopy copy(reinterpret_cast<const std::byte*>(s.source), cut, 0, 1);
        copy.begin();
        copy.store_all(slot_of(s, round));
        // Partner: read_in_bulk.
        sm::store_release_system(s.filled, round);
      }
    }
    __syncthreads();
  }
}

__global__ void __launch_bounds__(kThreads) read_in_bulk(Setup s) {
  const auto thread = static_cast<int>(threadIdx.x);
  for (std::uint64_t round = 1; round <= static_cast<std::uint64_t>(s.rounds); ++round) {
    if (thread == 0) {
      // What the round before read was compared. Partner: write_in_bulk.
      sm::store_relaxed_system(s.begun, round);
    }
    if (s.slow != kWriter) {
      take_time(round, 2);
    }
    if (!await_word(s.filled, round, &s.errors->stuck_readers)) {
      return;
    }
    const Unit* const units = reinterpret_cast<const Unit*>(slot_of(s, round)) + thread;
    bool is_stale = false;
    for (int j = kUnitsEach - 1; j >= 0; --j) {  // the last that was stored first
      is_stale |= !same(units[j * kThreads], content(round, thread, j));
    }
    if (__syncthreads_or(is_stale ? 1 : 0) != 0 && thread == 0) {
      atomicAdd(&s.errors->stale, 1u);
    }
  }
}

std::byte* allocate_on(const Gpu& gpu, std::size_t bytes) {
  void* memory = nullptr;
  require(cudaSetDevice(gpu.device), "device");
  require(cudaMalloc(&memory, bytes), "memory");
  require(cudaMemset(memory, 0, bytes), "memory");
  require(cudaDeviceSynchronize(), "memory");
  return static_cast<std::byte*>(memory);
}

void launch(const Setup& setup, const Gpu& writer, const Gpu& reader) {
  cudaFuncAttributes attributes;
  for (const Gpu* gpu : {&writer, &reader}) {  // loaded before anything runs that waits
    require(cudaSetDevice(gpu->device), "device");
    require(cudaFuncGetAttributes(&attributes, write_in_bulk), "loading");
    require(cudaFuncGetAttributes(&attributes, read_in_bulk), "loading");
    require(cudaFuncSetAttribute(write_in_bulk,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(sm::kBulkSharedBytes)),
            "shared memory");
  }
  read_in_bulk<<<1, kThreads, 0, reader.stream>>>(setup);
  require(cudaSetDevice(writer.device), "device");
  write_in_bulk<<<1, kThreads, sm::kBulkSharedBytes, writer.stream>>>(setup);
  require(cudaStreamSynchronize(writer.stream), "running");
  require(cudaSetDevice(reader.device), "device");
  require(cudaStreamSynchronize(reader.stream), "running");
}

bool holds(const std::vector<Gpu>& gpus, Slow slow, int rounds) {
  auto* const errors = reinterpret_cast<Errors*>(allocate_on_host(sizeof(Errors)));
  std::byte* const near = allocate_on(gpus[0], kMessageBytes + 4096);
  std::byte* const far = allocate_on(gpus[1], 2 * kMessageBytes + 4096);
  launch({.source = reinterpret_cast<Unit*>(near),
          .slots = far,
          .filled = reinterpret_cast<std::uint64_t*>(far + 2 * kMessageBytes),
          .begun = reinterpret_cast<std::uint64_t*>(near + kMessageBytes),
          .rounds = rounds,
          .slow = slow,
          .errors = errors},
         gpus[0],
         gpus[1]);
  const bool good =
      report(slow == kWriter ? "message passing" : "slot reuse", "bulk copies", rounds, *errors);
  require(cudaFree(far), "memory");
  require(cudaFree(near), "memory");
  require(cudaFreeHost(errors), "memory");
  return good;
}

}  // namespace

bool bulk_copies_hold(const std::vector<Gpu>& gpus, int rounds) {
  int major = 0;
  require(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpus[0].device),
          "the GPU");
  if (major * 10 < sm::kBulkCopiesFrom) {
    std::printf("bulk copies: not before sm_90\n");
    return true;
  }
  bool good = true;
  for (const Slow slow : {kWriter, kReader}) {
    good = holds(gpus, slow, std::max(1, rounds / kRoundsForOne)) && good;
  }
  return good;
}

}  // namespace sennit::litmus
