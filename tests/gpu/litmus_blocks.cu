// Messages of whole blocks, as exec/sm/step_kernel.cuh passes them on: all threads store, one
// publishes a word; one looks for the word, all threads load, through the cache of their SM.
//
// What a weakened word lets through here:
//   - Without release, the word overtakes data: a message has 256 lines, which lie behind many
//     slices of the cache and travel over all wires, and a crowd of other blocks keeps some of
//     these wires and slices busy, but hardly those of the word.
//   - Without acquire, loads find in the cache of the SM what they loaded two rounds ago: nothing
//     else drops those lines. Control alone would keep the loads behind the word, since no GPU
//     loads ahead of a branch, so where data is loaded past that cache, as packets are, a relaxed
//     load cannot be distinguished from one that acquires, and no plant is tried there.
// Whether host memory shows either is not relied upon: writes to it leave a GPU through one port.
#include "litmus.cuh"

namespace sennit::litmus {
namespace {

constexpr int kThreads = 512;
constexpr int kUnitsEach = 4;
constexpr std::size_t kMessageBytes = std::size_t{kThreads} * kUnitsEach * sizeof(Unit);
// The word of a round, each on a line of its own, so that they do not all take one way.
constexpr int kFilledWords = 16;
constexpr int kCrowdBlocks = 8;  // more of them would slow the rounds down, not mix them up more
constexpr int kCrowdThreads = 256;
constexpr std::size_t kCrowdBytes = std::size_t{kCrowdBlocks} * 4096;

struct Setup {
  std::byte* slots = nullptr;       // two messages, where the reader reads
  std::uint64_t* filled = nullptr;  // kFilledWords: next to them
  std::uint64_t* begun = nullptr;   // where the writer looks
  std::byte* crowd = nullptr;       // next to the slots; null: nobody crowds
  unsigned* is_over = nullptr;      // where the crowd looks
  int rounds = 0;
  Slow slow = kBoth;
  Errors* errors = nullptr;
};

__device__ Unit* slot_of(const Setup& s, std::uint64_t round) {
  return reinterpret_cast<Unit*>(s.slots + (round & 1) * kMessageBytes) + threadIdx.x;
}

__device__ std::uint64_t* filled_of(const Setup& s, std::uint64_t round) {
  return s.filled + (round % kFilledWords) * kWordsApart;
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

__global__ void __launch_bounds__(kThreads) write_messages(Setup s) {
  const auto thread = static_cast<int>(threadIdx.x);
  for (std::uint64_t round = 1; round <= static_cast<std::uint64_t>(s.rounds); ++round) {
    if (s.slow != kReader) {
      take_time(round, 1);
    }
    // Who has begun round k - 1 has read round k - 2, whose slot this one takes.
    if (!await_word(s.begun, round - 1, &s.errors->stuck_writers)) {
      break;
    }
    for (int j = 0; j < kUnitsEach; ++j) {
      slot_of(s, round)[j * kThreads] = content(round, thread, j);
    }
    __syncthreads();
    if (thread == 0) {
      // Partner: read_messages.
      sm::store_release_system(filled_of(s, round), round);
    }
  }
  if (thread == 0) {
    *reinterpret_cast<volatile unsigned*>(s.is_over) = 1;
  }
}

__global__ void __launch_bounds__(kThreads) read_messages(Setup s) {
  const auto thread = static_cast<int>(threadIdx.x);
  for (std::uint64_t round = 1; round <= static_cast<std::uint64_t>(s.rounds); ++round) {
    if (thread == 0) {
      // The reads of the round before have ended: what they read was compared. A release would
      // empty the cache as well, and hide that nobody acquires. Partner: write_messages.
      sm::store_relaxed_system(s.begun, round);
    }
    if (s.slow != kWriter) {
      take_time(round, 2);
    }
    if (!await_word(filled_of(s, round), round, &s.errors->stuck_readers)) {
      return;
    }
    bool is_stale = false;
    for (int j = 0; j < kUnitsEach; ++j) {
      is_stale |= !same(slot_of(s, round)[j * kThreads], content(round, thread, j));
    }
    if (__syncthreads_or(is_stale ? 1 : 0) != 0 && thread == 0) {
      atomicAdd(&s.errors->stale, 1u);
    }
  }
}

// Each block stores to one line for a while, then to another.
__global__ void __launch_bounds__(kCrowdThreads) crowd(Setup s) {
  auto* const page = s.crowd + static_cast<std::size_t>(blockIdx.x) * 4096;
  for (unsigned i = 0; *reinterpret_cast<volatile unsigned*>(s.is_over) == 0; ++i) {
    auto* const line = reinterpret_cast<volatile std::uint32_t*>(page + i / 64 % 32 * 128);
    for (unsigned j = 0; j < 32; ++j) {
      line[threadIdx.x % 32] = i + j;
    }
  }
}

constexpr std::size_t kWordBytes = std::size_t{kFilledWords} * kWordsApart * sizeof(std::uint64_t);
constexpr std::size_t kReaderBytes = 2 * kMessageBytes + kWordBytes + kCrowdBytes;
constexpr std::size_t kWriterBytes = 4096;

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
    require(cudaFuncGetAttributes(&attributes, write_messages), "loading");
    require(cudaFuncGetAttributes(&attributes, read_messages), "loading");
    require(cudaFuncGetAttributes(&attributes, crowd), "loading");
  }
  cudaStream_t second = nullptr;
  read_messages<<<1, kThreads, 0, reader.stream>>>(setup);
  require(cudaSetDevice(writer.device), "device");
  require(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), "stream");
  write_messages<<<1, kThreads, 0, writer.stream>>>(setup);
  if (setup.crowd != nullptr) {
    crowd<<<kCrowdBlocks, kCrowdThreads, 0, second>>>(setup);
  }
  require(cudaStreamSynchronize(writer.stream), "running");
  require(cudaStreamSynchronize(second), "running");
  require(cudaStreamDestroy(second), "stream");
  require(cudaSetDevice(reader.device), "device");
  require(cudaStreamSynchronize(reader.stream), "running");
}

bool holds(const std::vector<Gpu>& gpus, bool on_host, Slow slow, int rounds) {
  auto* const errors = reinterpret_cast<Errors*>(allocate_on_host(sizeof(Errors)));
  std::byte* const own = allocate_on(gpus[0], kWriterBytes);
  std::byte* const far = allocate_on(gpus[1], kReaderBytes);
  std::byte* const host = allocate_on_host(kReaderBytes + kWriterBytes);
  std::byte* const slots = on_host ? host + kWriterBytes : far;
  std::byte* const words = slots + 2 * kMessageBytes;
  const Setup setup{.slots = slots,
                    .filled = reinterpret_cast<std::uint64_t*>(words),
                    .begun = reinterpret_cast<std::uint64_t*>(on_host ? host : own),
                    .crowd = on_host ? nullptr : words + kWordBytes,
                    .is_over = reinterpret_cast<unsigned*>(own + kWriterBytes / 2),
                    .rounds = rounds,
                    .slow = slow,
                    .errors = errors};
  launch(setup, gpus[0], gpus[1]);
  const bool good = report(slow == kWriter ? "message passing" : "slot reuse",
                           on_host ? "blocks, host" : "blocks",
                           rounds,
                           *errors);
  require(cudaFreeHost(host), "memory");
  require(cudaFree(far), "memory");
  require(cudaFree(own), "memory");
  require(cudaFreeHost(errors), "memory");
  return good;
}

}  // namespace

bool blocks_hold(const std::vector<Gpu>& gpus, int rounds) {
  bool good = true;
  for (const bool on_host : {false, true}) {
    for (const Slow slow : {kWriter, kReader}) {
      if (kWeakness != Weakness::kNone && !good) {
        return false;  // it has shown what it was built to show
      }
      good = holds(gpus, on_host, slow, rounds) && good;
    }
  }
  return good;
}

}  // namespace sennit::litmus
