// The kernel of exec/sm/put_call.hpp: one launch a call, blocks that know nothing of each other.
// Block b of a rank moves the same parts of all ranges as block b of every other rank.
#pragma once

#include "exec/sm/put_call.hpp"
#include "exec/sm/warp.cuh"
#include "exec/unit.cuh"

namespace sennit::sm {

// The words of one block, and the call that they are about.
struct PutWords {
  const PutCall& call;
  int block;
  std::uint64_t number;  // of the call, from 1

  __device__ PutWords(const PutCall& c, int block_index)
      : call(c), block(block_index), number(c.calls[block_index] + 1) {}

  __device__ std::uint64_t* at(int owner, PutWord kind, int source) const {
    return call.words[owner] + put_word_at(call, kind, source, block);
  }

  __device__ std::uint64_t meeting() const { return meeting_word(call, number); }
  __device__ std::uint64_t progress(std::int64_t chunks) const {
    return progress_word(number, chunks);
  }

  // The ranks in `others` are told, by one thread each. All that the block did comes before.
  __device__ void tell(std::uint32_t others, PutWord kind, std::uint64_t value) const {
    __syncthreads();
    const int peer = static_cast<int>(threadIdx.x);
    if (peer < call.ranks && has(others, peer)) {
      // Partner: the acquire of await, in the same block of that rank.
      store_release_system(at(peer, kind, call.rank), value);
    }
  }

  // Waits until `is_there` of the words of all `others`. False, for all threads, when the kernel
  // has to leave.
  template <typename Predicate>
  __device__ bool await(std::uint32_t others, PutWord kind, Predicate is_there) const {
    bool alive = true;
    if (threadIdx.x < 32) {
      const int peer = static_cast<int>(threadIdx.x);
      std::uint64_t since = 0;
      for (int spins = 1; alive; ++spins) {
        // Partner: the release of tell.
        const bool here = peer >= call.ranks || !has(others, peer) ||
                          is_there(load_acquire_system(at(call.rank, kind, peer)));
        const std::uint32_t missing = __ballot_sync(~0u, !here);
        if (missing == 0) {
          break;
        }
        if (spins % kPatience == 0) {
          since = look_up(call.board, call.deadline_ns, since, {__ffs(missing) - 1, block, number});
          alive = since != 0;
        }
      }
    }
    return __syncthreads_and(alive) != 0;
  }

  __device__ std::uint32_t others() const { return ((1u << call.ranks) - 1) & ~(1u << call.rank); }

  // No rank uses another's buffers before its stream has come to this call. The end of the kernel
  // before orders what was done with them.
  __device__ bool begin() const {
    if (const int peer = static_cast<int>(threadIdx.x); peer < call.ranks && peer != call.rank) {
      // Partner: the acquire of await.
      store_relaxed_system(at(peer, PutWord::kReady, call.rank), meeting());
    }
    return await(others(), PutWord::kReady, [&](std::uint64_t word) { return word == meeting(); });
  }

  // No stream goes on before all others have finished with its rank's buffers.
  __device__ void end() const {
    tell(others(), PutWord::kDone, meeting());
    finish(await(others(), PutWord::kDone, [&](std::uint64_t word) { return word == meeting(); }));
  }

  __device__ bool has_given_up() const { return number == kGivenUp + 1; }
  __device__ void finish(bool alive) const {
    if (threadIdx.x == 0) {
      call.calls[block] = alive ? number : kGivenUp;
    }
  }
};

// The units of one chunk that are this thread's.
struct Parts {
  UnitPart of[kPutUnits];

  __device__ Parts(const void* range, std::int64_t bytes, std::int64_t chunk) {
    const auto shift = static_cast<int>(reinterpret_cast<std::uintptr_t>(range) & 15);
#pragma unroll
    for (int j = 0; j < kPutUnits; ++j) {
      of[j] = unit_part(
          chunk * kChunkUnits + j * kThreads + static_cast<int>(threadIdx.x), shift, bytes);
    }
  }

  __device__ __forceinline__ void load(const std::byte* range, Unit (&units)[kPutUnits]) const {
#pragma unroll
    for (int j = 0; j < kPutUnits; ++j) {
      const std::byte* const from = range + of[j].at;
      if (of[j].length == 16) {
        units[j] = *reinterpret_cast<const Unit*>(from);
      } else {
        units[j] = of[j].length > 0 ? read_bytes(from, of[j].length) : Unit{};
      }
    }
  }

  __device__ __forceinline__ void store(std::byte* range, const Unit (&units)[kPutUnits]) const {
#pragma unroll
    for (int j = 0; j < kPutUnits; ++j) {
      std::byte* const to = range + of[j].at;
      if (of[j].length == 16) {
        *reinterpret_cast<Unit*>(to) = units[j];
      } else if (of[j].length > 0) {
        write_bytes(to, of[j].length, units[j]);
      }
    }
  }
};

// To ranks after the own one, nearest first, so that no two begin with the same; to itself last.
__device__ __forceinline__ void put_chunk(const PutCall& call, std::int64_t chunk) {
  Unit units[kPutUnits];
  if (call.same_for_all) {
    const Transfer& any = call.puts[peer_at(call, 1)];
    const Parts parts(any.from, any.bytes, chunk);
    parts.load(any.from, units);
#pragma unroll 1
    for (int d = 1; d <= call.ranks; ++d) {
      if (const Transfer& put = call.puts[peer_at(call, d)]; put.bytes > 0) {
        parts.store(put.to, units);
      }
    }
    return;
  }
#pragma unroll 1
  for (int d = 1; d <= call.ranks; ++d) {
    if (const Transfer& put = call.puts[peer_at(call, d)]; put.bytes > 0) {
      const Parts parts(put.from, put.bytes, chunk);
      parts.load(put.from, units);
      parts.store(put.to, units);
    }
  }
}

__device__ __forceinline__ void pass_on(const PutCall& call, std::int64_t chunk) {
  const Parts parts(call.arrived, call.arrived_bytes, chunk);
  Unit units[kPutUnits];
  parts.load(call.arrived, units);
#pragma unroll 1
  for (int d = 1; d <= call.ranks; ++d) {
    if (const int peer = peer_at(call, d); has(call.passes_to, peer)) {
      parts.store(call.pass_to[peer], units);
    }
  }
}

// False when the kernel has to leave.
__device__ __forceinline__ bool move_chunks(const PutCall& call, const PutWords& words) {
  std::int64_t done = 0;
#pragma unroll 1
  for (std::int64_t chunk = words.block; chunk < call.chunks; chunk += call.blocks) {
    put_chunk(call, chunk);
    ++done;
    if (call.passed_on_by != 0 && chunk < call.passed_chunks) {
      words.tell(call.passed_on_by, PutWord::kPassed, words.progress(done));
    }
    if (call.passed_by >= 0) {
      const bool alive =
          words.await(1u << call.passed_by, PutWord::kPassed, [&](std::uint64_t word) {
            return word >= words.progress(done);
          });
      if (!alive) {
        return false;
      }
      pass_on(call, chunk);
    }
  }
  return true;
}

static __global__ void __launch_bounds__(kThreads)
    put_kernel(const __grid_constant__ PutCall call) {
  const PutWords words(call, static_cast<int>(blockIdx.x));
  if (words.has_given_up()) {
    return;
  }
  if (words.begin() && move_chunks(call, words)) {
    words.end();
  } else {
    words.finish(false);
  }
}

}  // namespace sennit::sm
