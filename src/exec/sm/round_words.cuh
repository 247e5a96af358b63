// The words by which the direct kernel's blocks and warps of different ranks agree about their
// rounds: that one has begun, and that packets without flags of their own have come.
#pragma once

#include "exec/sm/direct_call.hpp"
#include "exec/sm/warp.cuh"

namespace sennit::sm {

// Naps between two looks at words in host memory, after the first few: each look is a read over
// PCIe, which takes a microsecond and would be in the way of the packets.
inline constexpr int kLooksWithoutNap = 4;
inline constexpr unsigned kNapNs = 250;

__device__ __forceinline__ void nap_after(int looks) {
  if (looks > kLooksWithoutNap) {
    __nanosleep(kNapNs);
  }
}

// This block sends `peer` packets in this phase and round.
template <class P, class Call>
__device__ __forceinline__ bool sends(const Warp<P, Call>& w, int peer, int phase) {
  const Call& call = w.call;
  return phase == 0 ? has(call.push_to, peer) && w.has_packet(call.push[peer].length)
                    : has(call.forward_to, peer) && w.has_packet(call.own_to.length);
}

// And hears from `source`.
template <class P, class Call>
__device__ __forceinline__ bool hears(const Warp<P, Call>& w, int source, int phase) {
  const Call& call = w.call;
  const std::int64_t length = phase == 0 && call.arrival == Arrival::kReduce
                                  ? call.own_to.length
                                  : call.arrive[phase][source].length;
  return has(call.arrive_from[phase], source) && w.has_packet(length);
}

// Plain packets: tells their readers that those of this phase are there.
template <class P, class Call>
__device__ __forceinline__ void announce(const Warp<P, Call>& w, int phase) {
  if constexpr (P::kBlockWords) {
    const Call& call = w.call;
    if ((phase == 0 ? call.push_to : call.forward_to) == 0) {
      return;
    }
    __syncthreads();  // all warps have written theirs
    const int peer = static_cast<int>(threadIdx.x);
    if (peer < call.ranks && sends(w, peer, phase)) {
      // Partner: await_announced.
      store_release_system(w.word(peer, call.rank, phase), w.flag.line);
    }
  }
}

// One warp looks for all, so that little but packets is read over the wire.
template <class P, class Call>
__device__ bool look_for_words(Warp<P, Call>& w, int phase) {
  const Call& call = w.call;
  const bool wanted = w.lane < call.ranks && hears(w, w.lane, phase);
  w.waiting_since = 0;
  for (int looks = 1;; ++looks) {
    const bool here =
        !wanted || load_acquire_system(w.word(call.rank, w.lane, phase)) == w.flag.line;
    const std::uint32_t missing = __ballot_sync(~0u, !here);
    if (missing == 0) {
      return true;
    }
    if (looks % kPatience == 0 && !w.may_go_on(__ffs(missing) - 1)) {
      return false;
    }
    nap_after(looks);
  }
}

// Plain packets: waits until all of this phase and round are there. The barrier lets all warps see
// what one has acquired.
template <class P, class Call>
__device__ __forceinline__ void await_announced(Warp<P, Call>& w, int phase) {
  if constexpr (P::kBlockWords) {
    if (w.call.arrive_from[phase] != 0) {
      const bool found = w.alive && (w.warp != 0 || look_for_words(w, phase));
      w.alive = __syncthreads_and(found ? 1 : 0) != 0;
    }
  }
}

// The slots that this round writes are free: their readers have finished the round before last.
template <class P, class Call>
__device__ void await_free(Warp<P, Call>& w, std::uint32_t unheard) {
  const Call& call = w.call;
  const std::uint32_t needed = unheard & (call.push_to | call.forward_to);
  if (needed == 0 || w.round < 2) {
    return;
  }
  w.waiting_since = 0;
  int spins = 0;
  for (;;) {
    // Partner: the release of tell_started.
    const bool free = !has(needed, w.lane) ||
                      load_acquire_system(w.started_word(call.rank, w.lane)) >= w.round - 1;
    const std::uint32_t missing = __ballot_sync(~0u, !free);
    if (missing == 0 || (++spins % kPatience == 0 && !w.may_go_on(__ffs(missing) - 1))) {
      return;
    }
    if constexpr (P::kBlockWords) {
      nap_after(spins);
    }
  }
}

// Where it is a read over PCIe, one warp waits for all: reads of one line come one after the other.
template <class P, class Call>
__device__ __forceinline__ void await_free_together(Warp<P, Call>& w, std::uint32_t unheard) {
  if (P::kBlockWords || (P::kAlsoOnHost && w.call.on_host)) {
    if (w.warp == 0) {
      await_free(w, unheard);
    }
    w.alive = __syncthreads_and(w.alive ? 1 : 0) != 0;
  } else {
    await_free(w, unheard);
  }
}

// Tells those who get no packet of this block in this round that it has begun.
template <class P, class Call>
__device__ void tell_started(const Warp<P, Call>& w) {
  const Call& call = w.call;
  const int peer = static_cast<int>(threadIdx.x);
  if (peer >= call.ranks || peer == call.rank) {
    return;
  }
  if (!sends(w, peer, 0) && !sends(w, peer, 1)) {
    // Release: this block's reads of earlier rounds come before. Partner: await_free.
    store_release_system(w.started_word(peer, call.rank), w.round);
  }
}

// Ranks that sent this block no packet in this round.
template <class P, class Call>
__device__ std::uint32_t unheard_of(const Warp<P, Call>& w) {
  std::uint32_t unheard = 0;
#pragma unroll 1
  for (int r = 0; r < w.call.ranks; ++r) {
    if (r != w.call.rank && !hears(w, r, 0) && !hears(w, r, 1)) {
      unheard |= 1u << r;
    }
  }
  return unheard;
}

// Where packets carry no flags, a warp says that its own of this phase are there; also one that has
// none in a round in which its block has.
template <class P, class Call>
__device__ __forceinline__ void publish(const Warp<P, Call>& w, int phase) {
  if constexpr (P::kFlagsApart) {
    __syncwarp();
    if (w.lane < w.call.ranks && sends(w, w.lane, phase)) {
      // Release: what all lanes of the warp have stored comes before. Partner: await_flags.
      store_release_system(w.flag_word(w.lane, w.call.rank, phase), w.flag.line);
    }
  }
}

// Where packets carry no flags, waits until those of this phase have come from all ranks that send
// the warp any.
template <class P, class Call>
__device__ __forceinline__ void await_flags(Warp<P, Call>& w, int phase) {
  if constexpr (P::kFlagsApart) {
    const int source = w.lane < w.call.ranks ? w.lane : w.call.rank;
    const bool awaited = source != w.call.rank && hears(w, source, phase);
    const std::uint64_t* const word = w.flag_word(w.call.rank, source, phase);
    w.waiting_since = 0;
    int spins = 0;
    for (;;) {
      // Partner: the release of publish.
      const bool here = !awaited || load_acquire_system(word) == w.flag.line;
      const std::uint32_t missing = __ballot_sync(~0u, !here);
      if (missing == 0 || (++spins % kPatience == 0 && !w.may_go_on(__ffs(missing) - 1))) {
        break;
      }
    }
    __syncwarp();
  }
}

}  // namespace sennit::sm
