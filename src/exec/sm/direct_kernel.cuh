// The kernel of the direct family (exec/sm/direct_call.hpp): one launch a call, every warp on its
// own packets, no barrier but one a round.
#pragma once

#include "exec/sm/direct_call.hpp"
#include "exec/sm/warp.cuh"
#include "exec/unit_reducer.cuh"

namespace sennit::sm {

// Sources whose packets a warp waits for at once: enough to have the loads of 4 ranks in flight,
// few enough to hold them in registers.
inline constexpr int kBatch = 4;

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

// Where packets carry no flags, says that those of this phase have been sent to `to`, a rank of the
// lane's number; also of a warp that has none in a round in which its block has.
template <class P, class Call>
__device__ __forceinline__ void publish(const Warp<P, Call>& w, bool to, int phase) {
  if constexpr (P::kFlagsApart) {
    __syncwarp();
    if (to) {
      // Release: what all lanes of the warp have stored comes before. Partner: await_flags.
      store_release_system(w.flag_word(w.lane, w.call.rank, phase), w.flag.line);
    }
  }
}

template <class P, class Call>
__device__ __forceinline__ void publish_pushed(const Warp<P, Call>& w) {
  const Call& call = w.call;
  publish(
      w,
      w.lane < call.ranks && has(call.push_to, w.lane) && w.has_packet(call.push[w.lane].length),
      0);
}

template <class P, class Call>
__device__ __forceinline__ void publish_forwarded(const Warp<P, Call>& w) {
  const Call& call = w.call;
  publish(w,
          w.lane < call.ranks && has(call.forward_to, w.lane) && w.has_packet(call.own_to.length),
          1);
}

// Where packets carry no flags, waits until those of this phase have come from all ranks that send
// the warp any.
template <class P, class Call>
__device__ __forceinline__ void await_flags(Warp<P, Call>& w, int phase) {
  if constexpr (P::kFlagsApart) {
    const Call& call = w.call;
    const int source = w.lane < call.ranks ? w.lane : call.rank;
    const std::int64_t length = phase == 0 && call.arrival == Arrival::kReduce
                                    ? call.own_to.length
                                    : call.arrive[phase][source].length;
    const bool awaited =
        source != call.rank && has(call.arrive_from[phase], source) && w.has_packet(length);
    const std::uint64_t* const word = w.flag_word(call.rank, source, phase);
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
        raw[b] = P::load(mine + w.place(sources[b], phase, step), w.lane);
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

// A warp's part of a round, but for the own block.
template <class P, class R, class Call>
__device__ __forceinline__ void move_packets(Warp<P, Call>& w, int depth) {
  const Call& call = w.call;
  push<P, R>(w, depth);
  publish_pushed(w);
  if constexpr (R::kReduces) {
    await_flags(w, 0);
#pragma unroll 1
    for (int step = 0; step < depth && w.alive; ++step) {
      reduce<P, R>(w, step);
    }
    publish_forwarded(w);
  }
#pragma unroll 1
  for (int phase = R::kReduces ? 1 : 0; phase < 2; ++phase) {
    if (call.arrive_from[phase] == 0) {
      continue;
    }
    await_flags(w, phase);
#pragma unroll 1
    for (int step = 0; step < depth && w.alive; ++step) {
      arrive<P>(w, step, phase);
    }
    if (phase == 0) {
      publish_forwarded(w);
    }
  }
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
      await_free(w, unheard);
    }
    if (depth > 0) {
      move_packets<P, R>(w, depth);
    }
    if constexpr (!R::kReduces) {
      copy_own(w, depth);
    }
    unheard = call.all_heard ? 0 : unheard_of(w);
    // Warps of a round wait for each other, so that one packet of it speaks for the whole block.
    // A flag that lies apart comes from the very warp that reads what this one writes.
    if (!P::kFlagsApart || !call.all_heard) {
      __syncthreads();
    }
  }
  if (P::kFlagsApart) {
    __syncthreads();  // all have read the state
  }
  if (threadIdx.x == 0) {
    call.states[block] = {.round = w.round, .unheard = unheard};
  }
}

template <class P, class R>
__global__ void __launch_bounds__(kThreads) direct_kernel(const __grid_constant__ DirectCall call) {
  run_block<P, R>(call, static_cast<int>(blockIdx.x));
}

// A template, so that each file that asks for it has it, as with direct_kernel.
template <class Pairs>
__global__ void __launch_bounds__(kThreads) pairs_kernel(const __grid_constant__ Pairs pairs) {
  const int lane = static_cast<int>(blockIdx.x) / pairs.blocks;
  const int block = static_cast<int>(blockIdx.x) % pairs.blocks;
  for (int chain = lane; chain < pairs.chains; chain += pairs.lanes) {
    for (int i = pairs.begin[chain]; i < pairs.begin[chain + 1]; ++i) {
      const PairCall& call = pairs.calls[i];
      if (block < call.blocks) {
        if (call.packets == Packets::kLl) {
          run_block<Ll, NoReduction>(call, block);
        } else if (call.packets == Packets::kLl128) {
          run_block<Ll128, NoReduction>(call, block);
        } else {
          run_block<Slots, NoReduction>(call, block);
        }
      }
      // The next message between these ranks goes on from the round that this one has written.
      __syncthreads();
    }
  }
}

}  // namespace sennit::sm
