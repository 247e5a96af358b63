// Litmus tests: what the kernels of exec/sm rely on between GPUs, a million times each, with random
// delays: packets here, over NVLink and through host memory; messages of whole blocks in
// litmus_blocks.cu; messages that copy engines take part in in litmus_copies.cu. A program that was
// built with a weakness breaks one assumption on purpose, and has to fail in every test of packets
// that is there for it, with each kind of them, or these would not see it break (SENNIT_WEAKNESS,
// tests/CMakeLists.txt).
//
//   sennit_litmus [rounds]      exit status 0: all held (of a weakened one: one of its tests did);
//                               1: one did not (all); 2: CUDA failed; 77: no GPU
//
// A writer and a reader are blocks of one warp, on two GPUs where there are two. The reader owns
// two slots of a packet and signals the writer in a word when it begins a round, as blocks of the
// direct kernel do (docs/decisions/0014-rounds-and-packets.md).
#include "litmus.cuh"

#include <algorithm>

using namespace sennit::litmus;
using namespace sennit::sm;
using sennit::Unit;

struct Test {
  const char* name;
  std::uint64_t first_round;
  std::uint64_t age;  // of what lies in a slot before each round, in rounds; 0: two
  Slow slow;
  bool on_host;  // slots and words
  std::vector<Weakness> seen;  // what each kind of packets has to break by here
};

struct Setup {
  std::byte* slots[2];      // of the reader, as the writer sees them (two readers in `both`)
  std::uint64_t* words[2];  // of the writer, as the readers see them
  int readers;
  std::uint64_t first_round;
  std::uint64_t age;
  int rounds;
  Slow slow;
  Errors* errors;
};

__device__ Flag flag_for(std::uint64_t round) {
  return flag_of(kWeakness == Weakness::kShortFlag ? (round & 0xffu) : round, 0x12345u);
}

// Of the two slots of a reader, that of this round; and the word of its flag, if that is separate.
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
    if (shows(round)) {
      Unit stale[P::kUnits] = {};
      P::store(slot, lane, stale, flag_for(round));
      say();
      linger();
    }
  }
  P::store(slot, lane, units, flag_for(round));
  say();
}

template <class P>
__device__ void write_rounds(const Setup& s) {
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = 0; i < s.rounds; ++i) {
    const std::uint64_t round = s.first_round + static_cast<std::uint64_t>(i);
    if (s.slow != kReader) {
      take_time(round, 1);
    }
    for (int reader = 0; reader < s.readers; ++reader) {
      // Slot k mod 2 is free when the reader has begun round k - 1, so has read round k - 2.
      long long polls = 0;
      while (kWeakness != Weakness::kNoWait && i >= 2 &&
             load_acquire_system(s.words[reader]) < round - 1) {
        if (++polls > kPatienceOfTest) {
          atomicAdd(&s.errors->stuck_writers, 1u);
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
    if (s.age != 0 && i > 0) {
      put<P>(s.slots[reader], lane, round + 1 - s.age);  // the slot that is free from now on
      __syncwarp();
    }
    if (lane == 0) {
      // Release: the reads of the round before come first. Partner: write_rounds.
      store_release_system(s.words[reader], kWeakness == Weakness::kEarlyWord ? round + 1 : round);
    }
    if (kWeakness == Weakness::kEarlyWord && shows(round)) {
      linger();
    }
    if (s.slow != kWriter) {
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
      atomicAdd(&s.errors->stuck_readers, 1u);
      return;
    }
    Unit units[P::kUnits];
    P::units(raw, lane, units);
    for (int j = 0; j < P::kUnits; ++j) {
      if (P::unit_index(lane, j) >= 0 && !same(units[j], content(round, lane, j))) {
        atomicAdd(&s.errors->stale, 1u);
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

constexpr std::size_t kSideBytes = 8192;  // of each side: two packets and words of flags, or words

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
  }
  return gpus;
}

// Of the writer and the readers, in their order.
template <class P>
std::vector<std::byte*> allocate_sides(const Test& test, const std::vector<Gpu>& gpus) {
  std::vector<std::byte*> sides;
  for (const Gpu& gpu : gpus) {
    require(cudaSetDevice(gpu.device), "device");
    std::byte* memory = nullptr;
    if (test.on_host) {
      memory = allocate_on_host(kSideBytes);
    } else {
      require(cudaMalloc(&memory, kSideBytes), "memory");
      require(cudaMemset(memory, 0, kSideBytes), "memory");
    }
    if (test.age != 0 && !sides.empty()) {  // the writer's side holds words
      fill_slots<P><<<1, 32>>>(memory, test.first_round - test.age);
    }
    require(cudaDeviceSynchronize(), "memory");
    sides.push_back(memory);
  }
  return sides;
}

template <class P>
void launch(const Setup& setup, const std::vector<Gpu>& gpus) {
  // Loaded before anything runs that waits.
  cudaFuncAttributes attributes;
  for (const Gpu& gpu : gpus) {
    require(cudaSetDevice(gpu.device), "device");
    require(cudaFuncGetAttributes(&attributes, writer<P>), "loading");
    require(cudaFuncGetAttributes(&attributes, reader<P>), "loading");
  }
  // Readers first: what lies in their slots from before must not pass for what is to come.
  for (int i = 0; i < setup.readers; ++i) {
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
}

template <class P>
bool run(
    const Test& test, int readers, int rounds, const std::vector<Gpu>& gpus, const char* packets) {
  auto* const errors = reinterpret_cast<Errors*>(allocate_on_host(sizeof(Errors)));
  const std::vector<std::byte*> sides = allocate_sides<P>(test, gpus);
  Setup setup{.readers = readers,
              .first_round = test.first_round,
              .age = test.age,
              .rounds = rounds,
              .slow = test.slow,
              .errors = errors};
  for (int i = 0; i < readers; ++i) {
    setup.slots[i] = sides[static_cast<std::size_t>(i) + 1];
    setup.words[i] = reinterpret_cast<std::uint64_t*>(sides[0]) + i * kWordsApart;
  }
  launch<P>(setup, gpus);
  char of[64];
  std::snprintf(
      of, sizeof of, "%s%s, %d reader(s)", packets, test.on_host ? ", host" : "", readers);
  const bool good = report(test.name, of, rounds, *errors);
  for (std::byte* const side : sides) {
    require(test.on_host ? cudaFreeHost(side) : cudaFree(side), "memory");
  }
  require(cudaFreeHost(errors), "memory");
  return good;
}

// The number of tests that held, and of all.
struct Held {
  int held = 0;
  int all = 0;
};

// A weakened program makes the tests that it has to fail. Ll128 needs stores of whole lines, which
// host memory does not promise.
Held run_packets(const std::vector<Gpu>& gpus, int rounds) {
  constexpr std::uint64_t kOne = 1;
  using enum Weakness;
  const Test tests[] = {
      {"message passing", 1, 0, kWriter, false, {kFlagFirst}},
      {"slot reuse", 1, 0, kReader, false, {kNoWait, kEarlyWord}},
      {"of 2^8 rounds ago", 1000, kOne << 8, kWriter, false, {kShortFlag}},
      {"of 2^32 rounds ago", (kOne << 32) + 1000, kOne << 32, kWriter, false, {kShortFlag}},
      {"of 2^43 rounds ago", (kOne << 43) + 1000, kOne << 43, kWriter, false, {kShortFlag}},
      {"message passing", 1, 0, kWriter, true, {kFlagFirst}},
      {"slot reuse", 1, 0, kReader, true, {kNoWait, kEarlyWord}}};
  Held found;
  const auto count = [&](bool has_held) {
    found.held += has_held ? 1 : 0;
    ++found.all;
  };
  for (const Test& test : tests) {
    if (kWeakness != kNone && std::ranges::find(test.seen, kWeakness) == test.seen.end()) {
      continue;
    }
    // Through host memory a round takes microseconds, and two readers are one reader twice. Flags
    // are compared by each reader for itself.
    const int fewest = test.on_host ? 2 : 1;
    const int most = test.age != 0 ? 1 : 2;
    for (int readers = fewest; readers <= most; ++readers) {
      count(run<Ll>(test, readers, rounds, gpus, "ll"));
      if (!test.on_host) {
        count(run<Ll128>(test, readers, rounds, gpus, "ll128"));
      }
      count(run<Slots>(test, readers, rounds, gpus, "slots"));
    }
  }
  return found;
}

}  // namespace

// A program with weakened words runs where that can show: with messages of whole blocks.
int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 1'000'000;
  constexpr bool kWeakensWords =
      kWeakness == Weakness::kRelaxedStore || kWeakness == Weakness::kRelaxedLoad;
  const std::vector<Gpu> gpus = open_gpus();
  bool good = true;
  if constexpr (!kWeakensWords) {
    const Held packets = run_packets(gpus, rounds);
    good = kWeakness == Weakness::kNone ? packets.held == packets.all
                                         : packets.held > 0 || packets.all == 0;
  }
  if constexpr (kWeakensWords || kWeakness == Weakness::kNone) {
    good = blocks_hold(gpus, rounds) && good;
  }
  if constexpr (kWeakness == Weakness::kNone) {
    good = copies_hold(gpus, rounds) && good;
  }
  return good ? 0 : 1;
}
