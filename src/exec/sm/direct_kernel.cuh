// The kernel of the direct family (exec/sm/direct_call.hpp): one launch a call, every warp on its
// own packets, no barrier but one a round. With plain packets the warps of a block go together: it
// says in words what they have written, and one of them waits for those of others.
#pragma once

#include "exec/sm/direct_call.hpp"
#include "exec/sm/warp.cuh"
#include "exec/unit_reducer.cuh"

namespace sennit::sm {

// Sources whose packets a warp waits for at once: enough to have the loads of 4 ranks in flight,
// few enough to hold them in registers.
inline constexpr int kBatch = 4;

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
  if constexpr (P::kFlagsApart) {
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
  if constexpr (P::kFlagsApart) {
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
    if constexpr (P::kFlagsApart) {
      nap_after(spins);
    }
  }
}

// Where it is a read over PCIe, one warp waits for all.
template <class P, class Call>
__device__ __forceinline__ void await_free_together(Warp<P, Call>& w, std::uint32_t unheard) {
  if constexpr (P::kFlagsApart) {
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
  const bool told = (has(call.push_to, peer) && w.has_packet(call.push[peer].length)) ||
                    (has(call.forward_to, peer) && w.has_packet(call.own_to.length));
  if (!told) {
    // Release: this block's reads of earlier rounds come before. Partner: await_free.
    store_release_system(w.started_word(peer, call.rank), w.round);
  }
}

// Ranks that sent this block no packet in this round.
template <class P, class Call>
__device__ std::uint32_t unheard_of(const Warp<P, Call>& w) {
  const Call& call = w.call;
  std::uint32_t unheard = 0;
#pragma unroll 1
  for (int r = 0; r < call.ranks; ++r) {
    const std::int64_t length =
        call.arrival == Arrival::kReduce ? call.own_to.length : call.arrive[0][r].length;
    const bool heard = (has(call.arrive_from[0], r) && w.has_packet(length)) ||
                       (has(call.arrive_from[1], r) && w.has_packet(call.arrive[1][r].length));
    if (!heard && r != call.rank) {
      unheard |= 1u << r;
    }
  }
  return unheard;
}

// One block for all, to the output as well where it is the own one.
template <class P, class R, class Call>
__device__ __forceinline__ void push_to_all(const Warp<P, Call>& w, int step) {
  const Call& call = w.call;
  const std::int64_t at = w.offset(step);
  const ByteRange range = call.push[peer_at(call, 1)];
  const std::int64_t left = range.length - at;
  if (left <= 0) {
    return;
  }
  Unit units[P::kUnits];
  read_units<P>(call.input + range.begin + at, left, w.lane, units);
  R::prepare(units, call);
#pragma unroll 1
  for (int d = 1; d < call.ranks; ++d) {
    P::store(w.packet_at(peer_at(call, d), 0, step), w.lane, units, w.flag);
    if constexpr (P::kFlagsApart) {
      if (w.is_written_once(0)) {
        break;
      }
    }
  }
  if (!R::kReduces && call.own_is_sent) {
    write_units<P>(call.output + call.own_to.begin + at, left, w.lane, units);
  }
}

// Blocks for up to kBatch ranks are loaded before the first is stored: a store may alias a load, so
// the compiler would wait for each load in turn.
template <class P, class R, class Call>
__device__ __forceinline__ void push_to_each(const Warp<P, Call>& w, int step) {
  const Call& call = w.call;
  const std::int64_t at = w.offset(step);
#pragma unroll 1
  for (int begin = 1; begin < call.ranks; begin += kBatch) {
    Unit units[kBatch][P::kUnits];
    std::uint32_t wanted = 0;
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int peer = begin + b < call.ranks ? peer_at(call, begin + b) : 0;
      const ByteRange range = call.push[peer];
      if (begin + b < call.ranks && has(call.push_to, peer) && at < range.length) {
        wanted |= 1u << b;
        read_units<P>(call.input + range.begin + at, range.length - at, w.lane, units[b]);
      }
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (has(wanted, b)) {
        R::prepare(units[b], call);
        P::store(w.packet_at(peer_at(call, begin + b), 0, step), w.lane, units[b], w.flag);
      }
    }
  }
}

template <class P, class R, class Call>
__device__ __forceinline__ void push(const Warp<P, Call>& w, int depth) {
  if (w.call.push_to == 0) {
    return;
  }
#pragma unroll 1
  for (int step = 0; step < depth; ++step) {
    if (w.call.same_for_all) {
      push_to_all<P, R>(w, step);
    } else {
      push_to_each<P, R>(w, step);
    }
  }
}

// The own block goes to the output. Last of all: nobody waits for it.
template <class P, class Call>
__device__ __forceinline__ void copy_own(const Warp<P, Call>& w, int depth) {
  const Call& call = w.call;
  if (!call.own || call.own_is_sent) {
    return;
  }
#pragma unroll 1
  for (int step = 0; step < depth; ++step) {
    // A root's own range may be longer than what it exchanges with any one rank.
#pragma unroll 1
    for (std::int64_t at = w.offset(step); at < call.own_from.length; at += w.span()) {
      Unit units[P::kUnits];
      const std::int64_t left = call.own_from.length - at;
      read_units<P>(call.input + call.own_from.begin + at, left, w.lane, units);
      write_units<P>(call.output + call.own_to.begin + at, left, w.lane, units);
    }
  }
}

// Waits for the packets of up to kBatch sources, those in `wanted`.
template <class P, class Call>
__device__ __forceinline__ bool await(Warp<P, Call>& w,
                                      const int (&sources)[kBatch],
                                      std::uint32_t wanted,
                                      int phase,
                                      int step,
                                      typename P::Raw (&raw)[kBatch]) {
  const std::byte* const mine = w.call.arenas[w.call.rank];
  w.waiting_since = 0;
  int spins = 0;
  for (;;) {
    bool here = true;
    int missing = 0;
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (has(wanted, b)) {
        const std::uint32_t place = w.place(sources[b], phase, step);
        if constexpr (P::kFlagsApart) {
          const std::byte* const arena =
              w.is_written_once(phase) ? w.call.arenas[sources[b]] : mine;
          raw[b] = P::load(arena + place, w.lane);
        } else {
          raw[b] = P::load(mine + place, w.lane);
        }
      }
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (has(wanted, b) && !P::is_here(raw[b], w.lane, w.flag)) {
        here = false;
        missing = sources[b];
      }
    }
    if (__all_sync(~0u, here)) {
      return true;
    }
    if (++spins % kPatience == 0) {
      const std::uint32_t late = __ballot_sync(~0u, !here);
      if (late != 0 && !w.may_go_on(__shfl_sync(~0u, missing, __ffs(late) - 1))) {
        return false;
      }
    }
  }
}

template <class P, class Call>
__device__ __forceinline__ void forward(const Warp<P, Call>& w,
                                        int step,
                                        const Unit (&units)[P::kUnits]) {
  const Call& call = w.call;
#pragma unroll 1
  for (int d = 1; d < call.ranks && call.forward_to != 0; ++d) {
    const int peer = peer_at(call, d);
    if (has(call.forward_to, peer)) {
      P::store(w.packet_at(peer, 1, step), w.lane, units, w.flag);
      if constexpr (P::kFlagsApart) {
        break;  // its readers find it in the own arena
      }
    }
  }
}

// Stores what comes in phase `phase`. Where what came in phase 0 is passed on, it came from one
// rank alone.
template <class P, class Call>
__device__ __forceinline__ void arrive(Warp<P, Call>& w, int step, int phase) {
  const Call& call = w.call;
  const std::int64_t at = w.offset(step);
#pragma unroll 1
  for (int begin = 1; begin < call.ranks && w.alive; begin += kBatch) {
    int sources[kBatch];
    typename P::Raw raw[kBatch];
    std::uint32_t wanted = 0;
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      // Farthest first: who begins with me as its nearest is farthest from me.
      const int distance = call.ranks - (begin + b);
      sources[b] = distance > 0 ? peer_at(call, distance) : 0;
      if (distance > 0 && has(call.arrive_from[phase], sources[b]) &&
          at < call.arrive[phase][sources[b]].length) {
        wanted |= 1u << b;
      }
    }
    if (wanted == 0 || !await<P>(w, sources, wanted, phase, step, raw)) {
      continue;
    }
    Unit units[P::kUnits];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (has(wanted, b)) {
        P::units(raw[b], w.lane, units);
        const ByteRange range = call.arrive[phase][sources[b]];
        write_units<P>(call.output + range.begin + at, range.length - at, w.lane, units);
      }
    }
    if (phase == 0) {
      forward<P>(w, step, units);
    }
  }
}

// Reduces what came from all sources and the own input, in the order of ranks: the same order on
// every rank, so the same bits.
template <class P, class R, class Call>
__device__ __forceinline__ void reduce(Warp<P, Call>& w, int step) {
  const Call& call = w.call;
  const std::int64_t at = w.offset(step);
  const std::int64_t left = call.own_to.length - at;
  if (left <= 0) {
    return;
  }
  Unit own[P::kUnits] = {};
  if (call.own) {
    read_units<P>(call.input + call.own_from.begin + at, left, w.lane, own);
    R::prepare(own, call);
  }
  typename R::Accumulator sum[P::kUnits];
  bool first = true;
#pragma unroll 1
  for (int begin = 0; begin < call.ranks; begin += kBatch) {
    int sources[kBatch];
    typename P::Raw raw[kBatch];
    std::uint32_t wanted = 0;
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      sources[b] = begin + b;
      wanted |= has(call.arrive_from[0], sources[b]) ? 1u << b : 0u;
    }
    if (wanted != 0 && !await<P>(w, sources, wanted, 0, step, raw)) {
      return;
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const bool mine = sources[b] == call.rank && call.own;
      if (!mine && !has(wanted, b)) {
        continue;
      }
      Unit units[P::kUnits];
      if (mine) {
#pragma unroll
        for (int j = 0; j < P::kUnits; ++j) {
          units[j] = own[j];
        }
      } else {
        P::units(raw[b], w.lane, units);
      }
#pragma unroll
      for (int j = 0; j < P::kUnits; ++j) {
        if (first) {
          R::begin(sum[j], units[j]);
        } else {
          R::add(sum[j], units[j]);
        }
      }
      first = false;
    }
  }
  Unit units[P::kUnits];
#pragma unroll
  for (int j = 0; j < P::kUnits; ++j) {
    units[j] = R::finish(sum[j], call);
  }
  write_units<P>(call.output + call.own_to.begin + at, left, w.lane, units);
  forward<P>(w, step, units);
}

// One block's part of a call. R: UnitReducer, or NoReduction.
template <class P, class R, class Call>
__device__ __forceinline__ void run_block(const Call& call, int block) {
  Warp<P, Call> w(call, block);
  const BlockState before = call.states[block];
  const int depth = w.warp < call.warps ? call.depth : 0;
  std::uint32_t unheard = before.unheard;
#pragma unroll 1
  for (int i = 0; i < call.rounds && w.alive; ++i) {
    w.enter(before.round + 1 + static_cast<std::uint64_t>(i), i);
    if (!call.all_heard || unheard != 0) {
      tell_started(w);
      await_free_together(w, unheard);
    }
    push<P, R>(w, depth);
    announce(w, 0);
    if constexpr (R::kReduces) {
      await_announced(w, 0);
#pragma unroll 1
      for (int step = 0; step < depth && w.alive; ++step) {
        reduce<P, R>(w, step);
      }
    }
#pragma unroll 1
    for (int phase = R::kReduces ? 1 : 0; phase < 2; ++phase) {
      if constexpr (P::kFlagsApart) {
        if (phase == 1) {
          announce(w, 1);
        }
        await_announced(w, phase);
      }
#pragma unroll 1
      for (int step = 0; step < depth && w.alive && call.arrive_from[phase] != 0; ++step) {
        arrive<P>(w, step, phase);
      }
    }
    if constexpr (!R::kReduces) {
      copy_own(w, depth);
    }
    unheard = call.all_heard ? 0 : unheard_of(w);
    // Warps of a round wait for each other, so that one packet of it speaks for the whole block.
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    call.states[block] = {.round = w.round, .unheard = unheard};
  }
}

template <class P, class R>
__global__ void __launch_bounds__(kThreads) direct_kernel(const __grid_constant__ DirectCall call) {
  run_block<P, R>(call, static_cast<int>(blockIdx.x));
}

// Large: the packets of the messages that are not in Ll. Pairs is a template parameter so that each
// file that asks for the kernel has it, as with direct_kernel.
template <class Large, class Pairs>
__global__ void __launch_bounds__(kThreads) pairs_kernel(const __grid_constant__ Pairs pairs) {
  const int lane = static_cast<int>(blockIdx.x) / pairs.blocks;
  const int block = static_cast<int>(blockIdx.x) % pairs.blocks;
  for (int chain = lane; chain < pairs.chains; chain += pairs.lanes) {
    for (int i = pairs.begin[chain]; i < pairs.begin[chain + 1]; ++i) {
      const PairCall& call = pairs.calls[i];
      if (block < call.blocks) {
        if (call.packets == Packets::kLl) {
          run_block<Ll, NoReduction>(call, block);
        } else {
          run_block<Large, NoReduction>(call, block);
        }
      }
      // The next message between these ranks goes on from the round that this one has written.
      __syncthreads();
    }
  }
}

}  // namespace sennit::sm
