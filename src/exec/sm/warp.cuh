// Warp: what a warp of the direct kernel knows of where it is, how it waits, and how it reads and
// writes the user's memory.
#pragma once

#include "exec/sm/direct_call.hpp"
#include "exec/sm/packet.cuh"
#include "exec/unit.cuh"

// How words are written and looked at. Only litmus programs are built with weaker ones, which have
// to fail (tests/gpu/litmus.cu).
#ifndef SENNIT_WORD_LOAD
#define SENNIT_WORD_LOAD "ld.acquire.sys"
#endif
#ifndef SENNIT_WORD_STORE
#define SENNIT_WORD_STORE "st.release.sys"
#endif

namespace sennit::sm {

// Polls before a waiting warp looks at the clock and at the host's abort word, which is
// microseconds away.
inline constexpr int kPatience = 1 << 12;

__device__ __forceinline__ std::uint64_t now_ns() {
  std::uint64_t ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
}

__device__ __forceinline__ std::uint64_t load_acquire_system(const std::uint64_t* word) {
  std::uint64_t value;
  asm volatile(SENNIT_WORD_LOAD ".global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}

__device__ __forceinline__ void store_release_system(std::uint64_t* word, std::uint64_t value) {
  asm volatile(SENNIT_WORD_STORE ".global.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
}

__device__ __forceinline__ void store_relaxed_system(std::uint64_t* word, std::uint64_t value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
}

struct Wait {
  int peer;
  int block;
  std::uint64_t round;
};

// Called now and then by a waiting warp. The time since when it waits; 0 when it has to leave. By
// value and out of line: a warp whose address is taken would live in memory instead of registers.
inline __device__ __noinline__ std::uint64_t look_up(ErrorWord* error_word,
                                                     std::uint64_t deadline_ns,
                                                     std::uint64_t since,
                                                     Wait wait) {
  const std::uint64_t now = now_ns();
  since = since == 0 ? now : since;
  auto trouble = Trouble::kNone;
  const std::uint32_t abort = *reinterpret_cast<volatile std::uint32_t*>(&error_word->abort);
  if (abort != 0) {
    trouble = Trouble::kAborted;
  } else if (deadline_ns != 0 && now - since > deadline_ns) {
    trouble = Trouble::kDeadline;
  }
  const std::uint32_t troubled = __ballot_sync(~0u, trouble != Trouble::kNone);
  if (troubled == 0) {
    return since;
  }
  const bool is_told = abort == kAbortedByKernel;
  if ((threadIdx.x & 31) == static_cast<unsigned>(__ffs(troubled) - 1) && !is_told) {
    error_word->peer = static_cast<std::uint32_t>(wait.peer);
    error_word->block = static_cast<std::uint32_t>(wait.block);
    error_word->round = wait.round;
    __threadfence_system();
    *reinterpret_cast<volatile std::uint32_t*>(&error_word->trouble) =
        static_cast<std::uint32_t>(trouble);
    // Kernels behind this one would wait for as long again.
    if (abort == 0) {
      *reinterpret_cast<volatile std::uint32_t*>(&error_word->abort) = kAbortedByKernel;
    }
  }
  return 0;
}

// What a warp knows of where it is.
template <class P, class Call>
struct Warp {
  const Call& call;
  int lane;
  int warp;
  int block;
  std::uint64_t round = 0;        // number of the running round, from 1
  std::int64_t first_packet = 0;  // of the block in this round
  std::uint32_t slot = 0;         // of the warp in this round, in any FIFO; of phase 0 and rank 0
  Flag flag;
  std::uint64_t waiting_since = 0;
  bool alive = true;

  __device__ Warp(const Call& c, int block_index)
      : call(c),
        lane(static_cast<int>(threadIdx.x) & 31),
        warp(static_cast<int>(threadIdx.x) >> 5),
        block(block_index) {}

  static constexpr std::int64_t kPayload = P::kPacketUnits * 16;

  __device__ void enter(std::uint64_t number, int index) {
    round = number;
    flag = flag_of(number, call.fingerprint);
    first_packet =
        (static_cast<std::int64_t>(index) * call.blocks + block) * call.warps * call.depth;
    slot = call.layout.area + static_cast<std::uint32_t>(number & 1) * call.layout.generation +
           static_cast<std::uint32_t>(block) * call.layout.block +
           static_cast<std::uint32_t>(warp) * static_cast<std::uint32_t>(kPacketBytes);
  }

  // Byte of its range at which the warp's `step`-th packet of this round begins.
  __device__ std::int64_t offset(int step) const {
    return (first_packet + step * call.warps + warp) * kPayload;
  }

  // Bytes of a range that all blocks and rounds of the call cover.
  __device__ std::int64_t span() const {
    return static_cast<std::int64_t>(call.rounds) * call.blocks * call.warps * call.depth *
           kPayload;
  }

  // The block has a packet of a range of this length in this round.
  __device__ bool has_packet(std::int64_t length) const { return first_packet * kPayload < length; }

  // Where rank `source` leaves the warp's `step`-th packet in any FIFO, in bytes from its begin.
  // 32 bits, because many of these are held at once.
  __device__ std::uint32_t place(int source, int phase, int step) const {
    return slot + static_cast<std::uint32_t>(phase) * call.layout.phase +
           static_cast<std::uint32_t>(source) * call.layout.source +
           static_cast<std::uint32_t>(step) * call.layout.step;
  }
  // Plain packets for all others alike lie in the FIFO of their writer (as do those of small
  // calls, exec/sm/small_call.cpp), the rest in that of their reader. What differs here for plain
  // packets is in `if constexpr`, so that it costs kernels over NVLink nothing.
  __device__ bool is_written_once(int phase) const { return phase == 1 || call.pushes_once; }
  __device__ std::byte* packet_at(int peer, int phase, int step) const {
    if constexpr (P::kBlockWords) {
      const int owner = is_written_once(phase) ? call.rank : peer;
      return call.fifos[owner] + place(call.rank, phase, step);
    } else {
      return call.fifos[peer] + place(call.rank, phase, step);
    }
  }

  // By which `owner` hears that the packets of `source` have come.
  __device__ std::uint64_t* word(int owner, int source, int phase) const {
    std::byte* const line =
        call.fifos[owner] + call.layout.words +
        static_cast<std::uint32_t>(round & 1) * call.layout.words_generation +
        static_cast<std::uint32_t>(phase) * call.layout.words_phase +
        static_cast<std::uint32_t>(block) * static_cast<std::uint32_t>(kWordLineBytes);
    return reinterpret_cast<std::uint64_t*>(line) + source;
  }

  // Where rank `source` says that its packets of this round have come, if they carry no flags.
  __device__ std::uint64_t* flag_word(int owner, int source, int phase) const {
    const FifoLayout& l = call.layout;
    return reinterpret_cast<std::uint64_t*>(call.fifos[owner] + l.flags +
                                            static_cast<std::uint32_t>(round & 1) *
                                                l.flags_generation +
                                            static_cast<std::uint32_t>(phase) * l.flags_phase +
                                            static_cast<std::uint32_t>(source) * l.flags_source) +
           block * kWarps + warp;
  }

  __device__ std::uint64_t* started_word(int owner, int source) const {
    return reinterpret_cast<std::uint64_t*>(call.fifos[owner] + call.layout.started) +
           block * kWordsOfLine + source;
  }

  // False when the kernel has to leave, as all lanes then know.
  __device__ __forceinline__ bool may_go_on(int peer) {
    const int told = Call::kIsPair ? call.peer : peer;
    waiting_since = look_up(call.error_word, call.deadline_ns, waiting_since, {told, block, round});
    alive = waiting_since != 0;
    return alive;
  }
};

__device__ __forceinline__ bool has(std::uint32_t set, int rank) { return (set >> rank) & 1u; }

// Ranks after `rank`, nearest first, so that no two ranks begin with the same receiver.
template <class Call>
__device__ __forceinline__ int peer_at(const Call& call, int distance) {
  const int peer = call.rank + distance;
  return peer < call.ranks ? peer : peer - call.ranks;
}

// The lane's units of the packet at `base`, of which `left` bytes are the user's; the rest is zero.
template <class P>
__device__ __forceinline__ void read_units(const std::byte* base,
                                           std::int64_t left,
                                           int lane,
                                           Unit (&units)[P::kUnits]) {
  const bool aligned = (reinterpret_cast<std::uintptr_t>(base) & 15) == 0;
#pragma unroll
  for (int j = 0; j < P::kUnits; ++j) {
    const int index = P::unit_index(lane, j);
    const std::int64_t at = static_cast<std::int64_t>(index) * 16;
    units[j] = {};
    if (index < 0 || at >= left) {
      continue;
    }
    if (aligned && at + 16 <= left) {
      units[j] = *reinterpret_cast<const Unit*>(base + at);
    } else {
      units[j] = read_apart(base + at, left - at);
    }
  }
}

template <class P>
__device__ __forceinline__ void write_units(std::byte* base,
                                            std::int64_t left,
                                            int lane,
                                            const Unit (&units)[P::kUnits]) {
  const bool aligned = (reinterpret_cast<std::uintptr_t>(base) & 15) == 0;
#pragma unroll
  for (int j = 0; j < P::kUnits; ++j) {
    const int index = P::unit_index(lane, j);
    const std::int64_t at = static_cast<std::int64_t>(index) * 16;
    if (index < 0 || at >= left) {
      continue;
    }
    if (aligned && at + 16 <= left) {
      *reinterpret_cast<Unit*>(base + at) = units[j];
    } else {
      write_apart(base + at, left - at, units[j]);
    }
  }
}

}  // namespace sennit::sm
