// Litmus tests: what the kernels of exec/sm rely on between GPUs, a million times each, with random
// delays. A program that was built with a weakness breaks one assumption on purpose and has to
// fail, or the tests would not see it break (SENNIT_WEAKNESS, tests/CMakeLists.txt).
//
//   sennit_litmus [rounds]      exit status 0: all held; 1: one did not; 77: no GPU
//
// A writer and a reader are blocks of one warp, on two GPUs where there are two. The reader owns
// two slots of a packet and tells the writer in a word when it has begun a round, as blocks of the
// direct kernel do (docs/decisions/0014-rounds-and-packets.md).
#include "exec/sm/warp.cuh"

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace sennit::sm;
using sennit::Unit;

enum class Weakness {
  kNone,
  kFlagFirst,  // flags are written before the data beside them
  kNoWait,     // slots are written whether or not they were read
  kShortFlag,  // flags have 8 bits of the round
  kEarlyWord,  // the reader says that it has begun the next round before it has read this one
};
constexpr Weakness kWeakness = SENNIT_WEAKNESS;

// Polls before a test counts as stuck: a second or two.
constexpr long long kPatienceOfTest = 1LL << 21;

struct Test {
  const char* name;
  std::uint64_t first_round;
  std::uint64_t age;  // of what lies in the slots at first, in rounds; 0: zeros
  int slow;           // who takes its time: 0 both, 1 the writer, 2 the reader
  int share;          // one in so many of the rounds
};

struct Setup {
  std::byte* slots[2];      // of the reader, as the writer sees them (two readers in `both`)
  std::uint64_t* words[2];  // of the writer, as the readers see them
  int readers;
  std::uint64_t first_round;
  int rounds;
  int slow;
  unsigned* errors;  // stale data, stuck writers, stuck readers
};

__device__ void take_time(std::uint64_t round, int salt) {
  unsigned x = static_cast<unsigned>(round) * 2654435761u + static_cast<unsigned>(salt) * 40503u;
  x ^= x >> 15;
  if ((x & 7u) == 0) {
    __nanosleep(x >> 21);
  }
}

__device__ Unit content(std::uint64_t round, int lane, int unit) {
  const auto value =
      static_cast<std::uint32_t>(round * 131 + (round >> 32) * 7919 + lane * 7 + unit);
  return {value, ~value, value ^ 0x5a5a5a5au, value + 1};
}

__device__ bool same(const Unit& a, const Unit& b) {
  return a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w;
}

__device__ Flag flag_for(std::uint64_t round) {
  return flag_of(kWeakness == Weakness::kShortFlag ? (round & 0xffu) : round, 0x12345u);
}

// Of the two slots of a reader, that of this round; and the word of its flag, if that lies apart.
__device__ std::byte* slot_of(std::byte* slots, std::uint64_t round) {
  return slots + (round & 1) * kPacketBytes;
}
__device__ std::uint64_t* word_of(std::byte* slots, std::uint64_t round) {
  return reinterpret_cast<std::uint64_t*>(slots + 2 * kPacketBytes) + (round & 1) * 16;
}

template <class P>
__device__ void put(std::byte* slots, int lane, std::uint64_t round) {
  std::byte* const slot = slot_of(slots, round);
  const auto say = [&] {
    if constexpr (P::kFlagsApart) {
      __syncwarp();
      if (lane == 0) {
        // Partner: the acquire in read_rounds.
        store_release_system(word_of(slots, round), flag_for(round).line);
      }
    }
  };
  Unit units[P::kUnits];
  for (int j = 0; j < P::kUnits; ++j) {
    units[j] = content(round, lane, j);
  }
  if constexpr (kWeakness == Weakness::kFlagFirst) {
    Unit stale[P::kUnits] = {};
    P::store(slot, lane, stale, flag_for(round));
    say();
    __nanosleep(200);
  }
  P::store(slot, lane, units, flag_for(round));
  say();
}

template <class P>
__device__ void write_rounds(const Setup& s) {
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = 0; i < s.rounds; ++i) {
    const std::uint64_t round = s.first_round + static_cast<std::uint64_t>(i);
    if (s.slow != 2) {
      take_time(round, 1);
    }
    for (int reader = 0; reader < s.readers; ++reader) {
      // Slot k mod 2 is free when the reader has begun round k - 1, so has read round k - 2.
      long long polls = 0;
      while (kWeakness != Weakness::kNoWait && i >= 2 &&
             load_acquire_system(s.words[reader]) < round - 1) {
        if (++polls > kPatienceOfTest) {
          atomicAdd(&s.errors[1], 1u);
          return;
        }
      }
      put<P>(s.slots[reader], lane, round);
    }
  }
}

template <class P>
__device__ void read_rounds(const Setup& s, int reader) {
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = 0; i < s.rounds; ++i) {
    const std::uint64_t round = s.first_round + static_cast<std::uint64_t>(i);
    if (lane == 0) {
      // Release: the reads of the round before come first. Partner: write_rounds.
      store_release_system(s.words[reader], kWeakness == Weakness::kEarlyWord ? round + 1 : round);
    }
    if (s.slow != 1) {
      take_time(round, 2 + reader);
    }
    const std::byte* const slot = slot_of(s.slots[reader], round);
    typename P::Raw raw;
    long long polls = 0;
    bool is_said = true;
    do {
      if constexpr (P::kFlagsApart) {
        is_said = load_acquire_system(word_of(s.slots[reader], round)) == flag_for(round).line;
      }
      raw = P::load(slot, lane);
      if (++polls > kPatienceOfTest) {
        break;
      }
    } while (!__all_sync(~0u, is_said && P::is_here(raw, lane, flag_for(round))));
    if (__any_sync(~0u, polls > kPatienceOfTest)) {
      atomicAdd(&s.errors[2], 1u);
      return;
    }
    Unit units[P::kUnits];
    P::units(raw, lane, units);
    for (int j = 0; j < P::kUnits; ++j) {
      if (P::unit_index(lane, j) >= 0 && !same(units[j], content(round, lane, j))) {
        atomicAdd(&s.errors[0], 1u);
      }
    }
    __syncwarp();
  }
}

// A slot that was last written long ago.
template <class P>
__global__ void fill_slots(std::byte* slots, std::uint64_t first_round) {
  for (std::uint64_t round = first_round; round < first_round + 2; ++round) {
    put<P>(slots, static_cast<int>(threadIdx.x), round);
  }
}

template <class P>
__global__ void writer(Setup s) {
  write_rounds<P>(s);
}
template <class P>
__global__ void reader(Setup s, int index) {
  read_rounds<P>(s, index);
}

namespace {

void require(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    std::printf("litmus: %s: %s\n", what, cudaGetErrorString(error));
    std::exit(1);
  }
}

struct Gpu {
  int device = 0;
  cudaStream_t stream = nullptr;
  std::byte* memory = nullptr;  // two packets and words of flags, then a page of words
};

// The writer on the first, readers on the next ones, as far as there are GPUs.
std::vector<Gpu> open_gpus() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::printf("litmus: no GPU here\n");
    std::exit(77);
  }
  std::vector<Gpu> gpus(3);
  for (int i = 0; i < 3; ++i) {
    Gpu& gpu = gpus[static_cast<std::size_t>(i)];
    gpu.device = i % count;
    require(cudaSetDevice(gpu.device), "device");
    for (int peer = 0; peer < count; ++peer) {
      (void)cudaDeviceEnablePeerAccess(peer, 0);
    }
    (void)cudaGetLastError();
    require(cudaStreamCreateWithFlags(&gpu.stream, cudaStreamNonBlocking), "stream");
    require(cudaMalloc(&gpu.memory, 8192), "memory");
  }
  return gpus;
}

template <class P>
bool run(const Test& test, int readers, int rounds, std::vector<Gpu>& gpus, const char* packets) {
  unsigned* errors = nullptr;
  require(cudaHostAlloc(&errors, 64, cudaHostAllocMapped | cudaHostAllocPortable), "errors");
  errors[0] = errors[1] = errors[2] = 0;
  Setup setup{.readers = readers,
              .first_round = test.first_round,
              .rounds = rounds,
              .slow = test.slow,
              .errors = errors};
  for (int i = 0; i < 3; ++i) {
    require(cudaSetDevice(gpus[static_cast<std::size_t>(i)].device), "device");
    std::byte* const memory = gpus[static_cast<std::size_t>(i)].memory;
    require(cudaMemset(memory, 0, 8192), "memory");
    if (test.age != 0) {
      fill_slots<P><<<1, 32>>>(memory, test.first_round - test.age);
    }
    require(cudaDeviceSynchronize(), "memory");
  }
  for (int i = 0; i < readers; ++i) {
    setup.slots[i] = gpus[static_cast<std::size_t>(i) + 1].memory;
    setup.words[i] = reinterpret_cast<std::uint64_t*>(gpus[0].memory + 4096) + i * 16;
  }
  // Loaded before anything runs that waits.
  cudaFuncAttributes attributes;
  for (const Gpu& gpu : gpus) {
    require(cudaSetDevice(gpu.device), "device");
    require(cudaFuncGetAttributes(&attributes, writer<P>), "loading");
    require(cudaFuncGetAttributes(&attributes, reader<P>), "loading");
  }
  // Readers first: what lies in their slots from before must not pass for what is to come.
  for (int i = 0; i < readers; ++i) {
    const Gpu& gpu = gpus[static_cast<std::size_t>(i) + 1];
    require(cudaSetDevice(gpu.device), "device");
    reader<P><<<1, 32, 0, gpu.stream>>>(setup, i);
  }
  require(cudaSetDevice(gpus[0].device), "device");
  writer<P><<<1, 32, 0, gpus[0].stream>>>(setup);
  for (const Gpu& gpu : gpus) {
    require(cudaSetDevice(gpu.device), "device");
    require(cudaStreamSynchronize(gpu.stream), "running");
  }
  const bool good = errors[0] + errors[1] + errors[2] == 0;
  std::printf("%-22s %-6s %d reader(s), %d rounds: %s (%u stale, %u + %u stuck)\n",
              test.name,
              packets,
              readers,
              rounds,
              good ? "held" : "BROKEN",
              errors[0],
              errors[1],
              errors[2]);
  require(cudaFreeHost(errors), "errors");
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 1'000'000;
  std::vector<Gpu> gpus = open_gpus();
  const Test tests[] = {{"message passing", 1, 0, 1, 1},
                        {"slot reuse", 1, 0, 2, 1},
                        {"of 2^8 rounds ago", 1000, 256, 1, 1000},
                        {"of 2^32 rounds ago", (1ULL << 32) + 1000, 1ULL << 32, 1, 1000},
                        {"of 2^43 rounds ago", (1ULL << 43) + 1000, 1ULL << 43, 1, 1000}};
  bool good = true;
  for (const Test& test : tests) {
    // A weakened program has shown what it was built to show once a test is broken.
    for (const int readers : {1, 2}) {
      if (kWeakness != Weakness::kNone && !good) {
        return 1;
      }
      const int some = rounds / test.share;
      good = run<Ll>(test, readers, some, gpus, "ll") && good;
      good = run<Ll128>(test, readers, some, gpus, "ll128") && good;
      good = run<Slots>(test, readers, some, gpus, "slots") && good;
    }
  }
  return good ? 0 : 1;
}
