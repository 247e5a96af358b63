// The kernel of the direct family (exec/sm/direct_call.hpp): one launch a call, every warp on its
// own packets, no barrier but one a round, or none with flags apart. With plain packets the warps
// of a block go together: it says in words what they have written, and one of them waits for those
// of others.
#pragma once

#include "exec/early_launch.cuh"
#include "exec/sm/direct_call.hpp"
#include "exec/sm/round_words.cuh"
#include "exec/sm/warp.cuh"
#include "exec/unit_reducer.cuh"

namespace sennit::sm {

// Packets that a warp loads or waits for at once: enough to have the loads of 4 ranks in flight,
// few enough to hold them in registers. What holds them begins as zero, although it is only used
// where it has been loaded: else what it held before would stay alive around all loops, and take
// its registers from everything else.
inline constexpr int kBatch = 4;

// Packets of a round are moved in batches, those of the same step to or from all ranks first: so
// that with few ranks the loads of several steps are under way.
struct Turn {
  int distance = 1;  // of the other rank
  int step = 0;

  template <class Call>
  __device__ void advance(const Call& call) {
    if (Call::kIsPair || ++distance >= call.ranks) {
      distance = 1;
      ++step;
    }
  }
};

// One block for all, to the output as well where it is the own one. All of a batch is loaded before
// the first is stored: a store may alias a load, so the compiler would wait for each load in turn.
template <class P, class R, class Call>
__device__ __forceinline__ void push_to_all(const Warp<P, Call>& w, int depth) {
  const Call& call = w.call;
  const ByteRange range = call.push[peer_at(call, 1)];
#pragma unroll 1
  for (int begin = 0; begin < depth; begin += kBatch) {
    Unit units[kBatch][P::kUnits] = {};
    std::uint32_t wanted = 0;
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const std::int64_t at = w.offset(begin + b);
      if (begin + b < depth && at < range.length) {
        wanted |= 1u << b;
        read_units<P>(call.input + range.begin + at, range.length - at, w.lane, units[b]);
        R::prepare(units[b], call);
      }
    }
#pragma unroll 1
    for (int d = 1; d < call.ranks; ++d) {
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        if (has(wanted, b)) {
          P::store(w.packet_at(peer_at(call, d), 0, begin + b), w.lane, units[b], w.flag);
        }
      }
      if constexpr (P::kBlockWords) {
        if (w.is_written_once(0)) {
          break;
        }
      }
    }
    if constexpr (!R::kReduces) {
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        if (call.own_is_sent && has(wanted, b)) {
          const std::int64_t at = w.offset(begin + b);
          write_units<P>(call.output + call.own_to.begin + at, range.length - at, w.lane, units[b]);
        }
      }
    }
  }
}

template <class P, class R, class Call>
__device__ __forceinline__ void push_to_each(const Warp<P, Call>& w, int depth) {
  const Call& call = w.call;
  Turn turn;
#pragma unroll 1
  while (turn.step < depth) {
    Unit units[kBatch][P::kUnits] = {};
    std::byte* packets[kBatch];
    std::uint32_t wanted = 0;
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int peer = peer_at(call, turn.distance);
      const ByteRange range = call.push[peer];
      const std::int64_t at = w.offset(turn.step);
      packets[b] = w.packet_at(peer, 0, turn.step);
      if (turn.step < depth && has(call.push_to, peer) && at < range.length) {
        wanted |= 1u << b;
        read_units<P>(call.input + range.begin + at, range.length - at, w.lane, units[b]);
      }
      turn.advance(call);
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (has(wanted, b)) {
        R::prepare(units[b], call);
        P::store(packets[b], w.lane, units[b], w.flag);
      }
    }
  }
}

template <class P, class R, class Call>
__device__ __forceinline__ void push(const Warp<P, Call>& w, int depth) {
  if (w.call.push_to == 0) {
    return;
  }
  if (!Call::kIsPair && w.call.same_for_all) {
    push_to_all<P, R>(w, depth);
  } else {
    push_to_each<P, R>(w, depth);
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

// Waits for up to kBatch packets, those in `wanted`, of these sources and steps.
template <class P, class Call>
__device__ __forceinline__ bool await(Warp<P, Call>& w,
                                      const int (&sources)[kBatch],
                                      const int (&steps)[kBatch],
                                      std::uint32_t wanted,
                                      int phase,
                                      typename P::Raw (&raw)[kBatch]) {
  const std::byte* const mine = w.call.fifos[w.call.rank];
  w.waiting_since = 0;
  int spins = 0;
  for (;;) {
    bool here = true;
    int missing = 0;
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (has(wanted, b)) {
        const std::uint32_t place = w.place(sources[b], phase, steps[b]);
        if constexpr (P::kBlockWords) {
          const std::byte* const fifo = w.is_written_once(phase) ? w.call.fifos[sources[b]] : mine;
          raw[b] = P::load(fifo + place, w.lane);
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
      if constexpr (P::kBlockWords) {
        break;  // its readers find it in the own FIFO
      }
    }
  }
}

// Stores what comes in phase `phase`. Where what came in phase 0 is passed on, it came from one
// rank alone.
template <class P, class Call>
__device__ __forceinline__ void arrive(Warp<P, Call>& w, int depth, int phase) {
  const Call& call = w.call;
  Turn turn;
#pragma unroll 1
  while (turn.step < depth && w.alive) {
    int sources[kBatch];
    int steps[kBatch];
    typename P::Raw raw[kBatch] = {};
    std::uint32_t wanted = 0;
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      // Farthest first: who begins with me as its nearest is farthest from me.
      sources[b] = peer_at(call, call.ranks - turn.distance);
      steps[b] = turn.step;
      if (turn.step < depth && has(call.arrive_from[phase], sources[b]) &&
          w.offset(turn.step) < call.arrive[phase][sources[b]].length) {
        wanted |= 1u << b;
      }
      turn.advance(call);
    }
    if (wanted == 0 || !await<P>(w, sources, steps, wanted, phase, raw)) {
      continue;
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (!has(wanted, b)) {
        continue;
      }
      Unit units[P::kUnits];
      P::units(raw[b], w.lane, units);
      const ByteRange range = call.arrive[phase][sources[b]];
      const std::int64_t at = w.offset(steps[b]);
      write_units<P>(call.output + range.begin + at, range.length - at, w.lane, units);
      if (!Call::kIsPair && phase == 0) {
        forward<P>(w, steps[b], units);
      }
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
    int steps[kBatch];
    typename P::Raw raw[kBatch] = {};
    std::uint32_t wanted = 0;
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      sources[b] = begin + b;
      steps[b] = step;
      wanted |= has(call.arrive_from[0], sources[b]) ? 1u << b : 0u;
    }
    if (wanted != 0 && !await<P>(w, sources, steps, wanted, 0, raw)) {
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
  if (call.stores_sum) {
    write_units<P>(call.output + call.own_to.begin + at, left, w.lane, units);
  }
  forward<P>(w, step, units);
}

// A warp's part of a round, but for the own block.
template <class P, class R, class Call>
__device__ __forceinline__ void move_packets(Warp<P, Call>& w, int depth) {
  const Call& call = w.call;
  push<P, R>(w, depth);
  publish(w, 0);
  announce(w, 0);
  if constexpr (R::kReduces) {
    await_flags(w, 0);
    await_announced(w, 0);
#pragma unroll 1
    for (int step = 0; step < depth && w.alive; ++step) {
      reduce<P, R>(w, step);
    }
    if (!w.alive) {
      return;  // a flag would speak for what is not there
    }
    publish(w, 1);
    announce(w, 1);
  }
#pragma unroll 1
  for (int phase = R::kReduces ? 1 : 0; phase < (Call::kIsPair ? 1 : 2); ++phase) {
    if (call.arrive_from[phase] == 0) {
      continue;
    }
    await_flags(w, phase);
    await_announced(w, phase);
    arrive<P>(w, depth, phase);
    if (!w.alive) {
      return;
    }
    if (!Call::kIsPair && phase == 0) {
      publish(w, 1);
      announce(w, 1);
    }
  }
}

// One block's part of a call. R: UnitReducer, or NoReduction. False, for all threads, when it had
// to leave.
template <class P, class R, class Call>
__device__ __forceinline__ bool run_block(const Call& call, int block) {
  Warp<P, Call> w(call, block);
  const BlockState before = call.states[block];
  if (before.round == kGivenUp) {
    return false;
  }
  const int depth = w.warp < call.warps ? call.depth : 0;
  std::uint32_t unheard = before.unheard;
#pragma unroll 1
  for (int i = 0; i < call.rounds && w.alive; ++i) {
    w.enter(before.round + 1 + static_cast<std::uint64_t>(i), i);
    if (!call.all_heard || unheard != 0) {
      tell_started(w);
      await_free_together(w, unheard);
    }
    if (w.alive && (depth > 0 || P::kBlockWords)) {
      move_packets<P, R>(w, depth);
    }
    if constexpr (!R::kReduces && !Call::kIsPair) {
      copy_own(w, depth);
    }
    unheard = call.all_heard ? 0 : unheard_of(w);
    // Warps of a round wait for each other, so that one packet of it speaks for the whole block;
    // and leave together. A flag that lies apart comes from the very warp that reads what this one
    // writes.
    if (!P::kFlagsApart || !call.all_heard) {
      w.alive = __syncthreads_and(w.alive ? 1 : 0) != 0;
    }
  }
  if (P::kFlagsApart) {
    w.alive = __syncthreads_and(w.alive ? 1 : 0) != 0;  // and all have read the state
  }
  if (threadIdx.x == 0) {
    call.states[block] = {.round = w.alive ? w.round : kGivenUp, .unheard = unheard};
  }
  return w.alive;
}

template <class P, class R>
__global__ void __launch_bounds__(kThreads) direct_kernel(const __grid_constant__ DirectCall call) {
  await_stream();
  run_block<P, R>(call, static_cast<int>(blockIdx.x));
}

}  // namespace sennit::sm
