// Litmus: what the files of the litmus programs share (tests/gpu/litmus.cu).
#pragma once

#include "exec/sm/warp.cuh"

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace sennit::litmus {

enum class Weakness {
  kNone,
  kFlagFirst,     // flags are written before the data next to them
  kNoWait,        // slots are written whether or not they were read
  kShortFlag,     // flags have 8 bits of the round
  kEarlyWord,     // the reader says that it has begun the next round before it has read this one
  kRelaxedStore,  // words are stored without release
  kRelaxedLoad,   // words are loaded without acquire
};
inline constexpr Weakness kWeakness = SENNIT_WEAKNESS;

// Polls before a test counts as stuck: a second or two.
inline constexpr long long kPatienceOfTest = 1LL << 21;

// Words that different sides write lie so far from each other, in words.
inline constexpr int kWordsApart = 16;

__device__ inline void take_time(std::uint64_t round, int salt) {
  unsigned x = static_cast<unsigned>(round) * 2654435761u + static_cast<unsigned>(salt) * 40503u;
  x ^= x >> 15;
  if ((x & 7u) == 0) {
    __nanosleep(x >> 21);
  }
}

// A weakness that depends on who comes first shows for sure in these rounds: who has done the wrong
// thing waits for longer than words and packets take through the memory of the host.
__device__ inline bool shows(std::uint64_t round) { return (round & 63u) == 0; }
__device__ inline void linger() { __nanosleep(50'000); }

__device__ inline Unit content(std::uint64_t round, int lane, int unit) {
  const auto value =
      static_cast<std::uint32_t>(round * 131 + (round >> 32) * 7919 + lane * 7 + unit);
  return {value, ~value, value ^ 0x5a5a5a5au, value + 1};
}

__device__ inline bool same(const Unit& a, const Unit& b) {
  return a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w;
}

inline void require(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    std::printf("litmus: %s: %s\n", what, cudaGetErrorString(error));
    std::exit(2);
  }
}

// Seen by every GPU and by the host, at one address; zeroed.
inline std::byte* allocate_on_host(std::size_t bytes) {
  void* memory = nullptr;
  require(cudaHostAlloc(&memory, bytes, cudaHostAllocMapped | cudaHostAllocPortable), "memory");
  for (std::size_t i = 0; i < bytes; ++i) {
    static_cast<std::byte*>(memory)[i] = std::byte{0};
  }
  return static_cast<std::byte*>(memory);
}

// Which side of a test takes its time.
enum Slow { kBoth, kWriter, kReader };

struct Gpu {
  int device = 0;
  cudaStream_t stream = nullptr;
};

struct Errors {
  unsigned stale;
  unsigned stuck_writers;
  unsigned stuck_readers;

  [[nodiscard]] bool none() const { return stale + stuck_writers + stuck_readers == 0; }
};

inline bool report(const char* test, const char* of, int rounds, const Errors& errors) {
  std::printf("%-22s %-18s %d rounds: %s (%u stale, %u + %u stuck)\n",
              test,
              of,
              rounds,
              errors.none() ? "held" : "BROKEN",
              errors.stale,
              errors.stuck_writers,
              errors.stuck_readers);
  std::fflush(stdout);
  return errors.none();
}

// Messages of whole blocks (litmus_blocks.cu).
bool blocks_hold(const std::vector<Gpu>& gpus, int rounds);
// Messages from kernel to copy engine to kernel (litmus_copies.cu).
bool copies_hold(const std::vector<Gpu>& gpus, int rounds);

}  // namespace sennit::litmus
