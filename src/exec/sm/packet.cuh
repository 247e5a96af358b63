// Packets: 1024 bytes that a warp writes and a warp reads. They carry units (exec/unit.cuh). Those
// with flags beside the data say themselves when they have arrived.
//
//   Ll     every 8 bytes are 4 of data and a 32-bit flag: right wherever 8-byte stores are whole.
//          32 units a packet, one a lane.
//   Ll128  every 128-byte line ends in a 64-bit flag: right where the 16-byte stores of one warp
//          instruction to one line arrive together, as over NVLink. 60 units a packet, two a lane;
//          the lanes that carry the flags (the last of each line) have one, cut in two halves.
//   Slots  data alone, 64 units a packet, two a lane; one flag for all packets of a warp's round,
//          released behind them: no byte too many travels, but who releases waits for its stores.
//   Plain  the same, with one word for all packets of a block's round: for host memory, where each
//          look at a word is a read over PCIe.
//
// Flags are wide enough never to come back: Ll compares 64 bits a unit, the others 44 bits of the
// round and 20 of the fingerprint. A call that differs between ranks never matches.
#pragma once

#include "exec/unit.cuh"
#include "memory/fifo.hpp"

#include <cstdint>

namespace sennit::sm {

struct Flag {
  LlFlags words;
  std::uint64_t line = 0;  // Ll128, and the words of Slots and plain packets
};

__device__ __forceinline__ Flag flag_of(std::uint64_t round, std::uint32_t fingerprint) {
  return {.words = ll_flags(round, fingerprint), .line = round_flag(round, fingerprint)};
}

__device__ __forceinline__ void store_16(
    void* to, std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(to), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

__device__ __forceinline__ uint4 load_16(const void* from) {
  uint4 v;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from)
               : "memory");
  return v;
}

struct Ll {
  static constexpr bool kFlagsApart = false;
  static constexpr bool kBlockWords = false;
  static constexpr bool kAlsoOnHost = true;
  static constexpr int kUnits = 1;  // a lane
  static constexpr int kPacketUnits = 32;

  // Which unit of the packet is the lane's j-th; -1: none.
  __device__ static int unit_index(int lane, int) { return lane; }

  __device__ static void store(std::byte* packet, int lane, const Unit (&u)[kUnits], Flag f) {
    std::byte* const at = packet + lane * 16;
    // Each instruction writes whole lines: of half-written ones twice as many travel.
    store_16(at, u[0].x, f.words.even, u[0].y, f.words.odd);
    store_16(at + 512, u[0].z, f.words.even, u[0].w, f.words.odd);
  }

  struct Raw {
    uint4 first;
    uint4 second;
  };
  __device__ static Raw load(const std::byte* packet, int lane) {
    const std::byte* const at = packet + lane * 16;
    return {load_16(at), load_16(at + 512)};
  }
  __device__ static bool is_here(const Raw& r, int, Flag f) {
    return r.first.y == f.words.even && r.first.w == f.words.odd && r.second.y == f.words.even &&
           r.second.w == f.words.odd;
  }
  __device__ static void units(const Raw& r, int, Unit (&u)[kUnits]) {
    u[0] = {r.first.x, r.first.z, r.second.x, r.second.z};
  }
};

struct Ll128 {
  static constexpr bool kFlagsApart = false;
  static constexpr bool kBlockWords = false;
  static constexpr bool kAlsoOnHost = false;
  static constexpr int kUnits = 2;
  static constexpr int kPacketUnits = 60;

  __device__ static bool carries_flag(int lane) { return (lane & 7) == 7; }

  __device__ static int unit_index(int lane, int j) {
    if (carries_flag(lane)) {
      return j == 0 ? 56 + (lane >> 3) : -1;
    }
    return lane - (lane >> 3) + j * 28;
  }

  __device__ static void store(std::byte* packet, int lane, const Unit (&u)[kUnits], Flag f) {
    std::byte* const at = packet + lane * 16;
    const auto low = static_cast<std::uint32_t>(f.line);
    const auto high = static_cast<std::uint32_t>(f.line >> 32);
    const bool flag = carries_flag(lane);
    // Each instruction writes four whole lines.
    store_16(at, u[0].x, u[0].y, flag ? low : u[0].z, flag ? high : u[0].w);
    store_16(at + 512,
             flag ? u[0].z : u[1].x,
             flag ? u[0].w : u[1].y,
             flag ? low : u[1].z,
             flag ? high : u[1].w);
  }

  struct Raw {
    uint4 first;
    uint4 second;
  };
  __device__ static Raw load(const std::byte* packet, int lane) {
    const std::byte* const at = packet + lane * 16;
    return {load_16(at), load_16(at + 512)};
  }
  __device__ static bool is_here(const Raw& r, int lane, Flag f) {
    const auto low = static_cast<std::uint32_t>(f.line);
    const auto high = static_cast<std::uint32_t>(f.line >> 32);
    return !carries_flag(lane) ||
           (r.first.z == low && r.first.w == high && r.second.z == low && r.second.w == high);
  }
  __device__ static void units(const Raw& r, int lane, Unit (&u)[kUnits]) {
    const bool flag = carries_flag(lane);
    u[0] = {r.first.x, r.first.y, flag ? r.second.x : r.first.z, flag ? r.second.y : r.first.w};
    u[1] = r.second;
  }
};

struct Slots {
  static constexpr bool kFlagsApart = true;
  static constexpr bool kBlockWords = false;
  static constexpr bool kAlsoOnHost = false;
  static constexpr int kUnits = 2;
  static constexpr int kPacketUnits = 64;

  __device__ static int unit_index(int lane, int j) { return lane + j * 32; }

  __device__ static void store(std::byte* packet, int lane, const Unit (&u)[kUnits], Flag) {
    auto* const to = reinterpret_cast<Unit*>(packet) + lane;
    to[0] = u[0];
    to[32] = u[1];
  }

  struct Raw {
    uint4 first;
    uint4 second;
  };
  // Once the flag has come. Volatile, since the cache of an SM may still hold an earlier round.
  __device__ static Raw load(const std::byte* packet, int lane) {
    const std::byte* const at = packet + lane * 16;
    return {load_16(at), load_16(at + 512)};
  }
  __device__ static bool is_here(const Raw&, int, Flag) { return true; }
  __device__ static void units(const Raw& r, int, Unit (&u)[kUnits]) {
    u[0] = r.first;
    u[1] = r.second;
  }
};

struct Plain : Slots {
  static constexpr bool kFlagsApart = false;
  static constexpr bool kBlockWords = true;
};

}  // namespace sennit::sm
