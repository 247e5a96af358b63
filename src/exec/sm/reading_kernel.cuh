// The kernel of reductions that read what they reduce where it lies (exec/sm/reading_call.hpp).
// Few thread blocks do: each has as much on its way to its registers as its SM can take.
#pragma once

#include "exec/early_launch.cuh"
#include "exec/sm/direct_kernel.cuh"
#include "exec/sm/message_kernel.cuh"
#include "exec/sm/reading_call.hpp"

namespace sennit::sm {

static_assert(kWarps >= kMaxRanks, "a warp awaits the addresses of a rank");
static_assert(kMostReadingBlocks * kMaxRanks <= kThreads, "a thread awaits what a block has done");

// The part that this rank reduces.
struct Parts {
  const std::byte* inputs[kMaxRanks];  // of each rank
  std::byte* outputs[kMaxRanks];       // of this rank, and of the others where they get it
};

// By the first block, to all blocks of all others, by a thread for each address: threads that went
// from rank to rank took half a microsecond a rank. False, for all threads, where a call before
// this one was given up.
__device__ __forceinline__ bool announce_buffers(const ReadingCall& call) {
  const DirectCall& direct = call.direct;
  const auto for_each = [&](int of_a_rank, auto function) {
#pragma unroll 1
    for (auto i = static_cast<int>(threadIdx.x); i < direct.ranks * of_a_rank; i += kThreads) {
      if (const int rank = i / of_a_rank; rank != direct.rank) {
        function(call.peers[rank], i % of_a_rank);
      }
    }
  };
  bool is_gone = false;
  const int other = direct.rank == 0 ? 1 : 0;
  for_each(call.peers[other].as_receiver.most_blocks,
           [&](const ReadingCall::Peer& peer, int index) {
             is_gone |= peer.as_receiver.messages[index] == kGivenUp;
           });
  if (__syncthreads_or(is_gone ? 1 : 0) != 0) {
    return false;
  }
  const int addresses = kAddressesOfBlock * call.readers;
  if (static_cast<int>(threadIdx.x) >= direct.ranks * addresses) {
    return true;
  }
  // What kernels before this one have written is read by those who find them.
  __threadfence_system();
  for_each(addresses, [&](const ReadingCall::Peer& peer, int index) {
    const MessagePut& put = peer.as_receiver;
    const LlFlags flags = address_flags(put.messages[index] + 1, direct.fingerprint);
    const auto address = call.is_reached
                             ? reinterpret_cast<std::uint64_t>(
                                   index % kAddressesOfBlock == 0 ? peer.input : peer.output)
                             : 0;
#pragma unroll
    for (int i = 0; i < kAddressWords; ++i) {
      // Partner: await_buffers.
      store_relaxed_system(put.addresses + index * kAddressWords + i,
                           address_word(address, i, flags));
    }
  });
  return true;
}

// Where the buffers of all others are, by a warp for each. False, for all threads, when the kernel
// has to leave; `is_whole` says whether all ranks reach all of them.
__device__ __forceinline__ bool await_buffers(const ReadingCall& call,
                                              int block,
                                              Parts& parts,
                                              bool& is_whole) {
  const DirectCall& direct = call.direct;
  const auto peer = static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  bool is_here = true;
  bool is_reached = call.is_reached;
  if (peer == direct.rank && lane == 0) {
    parts.inputs[peer] = direct.input + direct.own_from.begin;
    parts.outputs[peer] = direct.output + direct.own_to.begin;
  } else if (peer < direct.ranks && peer != direct.rank) {
    constexpr int kWords = kAddressesOfBlock * kAddressWords;
    const MessagePut& put = call.peers[peer].as_sender;
    const int first = kAddressesOfBlock * block;
    const bool looks = lane < kWords;
    const std::uint64_t counted = looks ? put.messages[first + lane / kAddressWords] : 0;
    const LlFlags flags = address_flags(counted + 1, direct.fingerprint);
    const std::uint64_t* const own = put.addresses + first * kAddressWords + lane;
    std::uint64_t word = 0;
    std::uint64_t since = 0;
    is_here = __all_sync(~0u, counted != kGivenUp) != 0;
    for (int spins = 1; is_here; ++spins) {
      // Partner: announce_buffers.
      word = looks ? load_acquire_system(own) : 0;
      if (__all_sync(~0u, !looks || is_address(word, lane % kAddressWords, flags))) {
        break;
      }
      if (spins % kPatience == 0) {
        since = look_up(direct.error_word, direct.deadline_ns, since, {peer, block, counted + 1});
        is_here = since != 0;
      }
    }
    const std::uint64_t next = __shfl_down_sync(~0u, word, 1);
    const std::uint64_t address = address_from(word, next);
    if (lane == 0) {
      parts.inputs[peer] = reinterpret_cast<const std::byte*>(address) + direct.own_from.begin;
    } else if (lane == kAddressWords) {
      parts.outputs[peer] = reinterpret_cast<std::byte*>(address) + direct.own_to.begin;
    }
    is_reached = is_reached && __shfl_sync(~0u, address, 0) != 0;
  }
  is_here = __syncthreads_and(is_here ? 1 : 0) != 0;
  is_whole = __syncthreads_and(is_reached ? 1 : 0) != 0;
  return is_here;
}

// Less than a unit: `left` bytes from byte `at` of the part on.
template <class R>
__device__ __noinline__ void reduce_edge(const ReadingCall& call,
                                         const Parts& parts,
                                         std::int64_t at,
                                         std::int64_t left) {
  const DirectCall& direct = call.direct;
  typename R::Accumulator sum;
  R::begin(sum, read_unit(parts.inputs[0] + at, left));
#pragma unroll 1
  for (int rank = 1; rank < direct.ranks; ++rank) {
    R::add(sum, read_unit(parts.inputs[rank] + at, left));
  }
  const Unit result = R::finish(sum, direct);
#pragma unroll 1
  for (int rank = 0; rank < direct.ranks; ++rank) {
    if (rank == direct.rank || call.stores_in_peers()) {
      write_unit(parts.outputs[rank] + at, left, result);
    }
  }
}

// One block's share of the part, in the order of ranks. A thread reduces several units at once, and
// the next inputs are on their way to it meanwhile: of the next ranks, and of the units behind.
template <class R>
__device__ __forceinline__ void reduce_part(const ReadingCall& call,
                                            const Parts& parts,
                                            int block) {
  // As many as registers hold: sums of small elements take several for each that is loaded.
  constexpr int kAtOnce = sizeof(typename R::Accumulator) <= 32 ? 2 : 1;
  constexpr int kInputs = 4 * kAtOnce;  // loaded ahead
  const DirectCall& direct = call.direct;
  // At the same distance from a multiple of 16 bytes in all buffers.
  const Cut<Unit> cut(reinterpret_cast<std::uintptr_t>(parts.inputs[direct.rank]),
                      direct.own_to.length);
  const std::int64_t stride = static_cast<std::int64_t>(call.readers) * kThreads;
  struct Turn {
    std::int64_t at;  // the first unit
    int rank;
  };
  const auto advance = [&](Turn& turn) {
    if (++turn.rank == direct.ranks) {
      turn.rank = 0;
      turn.at += kAtOnce * stride;
    }
  };
  const auto load = [&](const Turn& turn, Unit(&units)[kAtOnce]) {
    const auto* const from = reinterpret_cast<const Unit*>(parts.inputs[turn.rank] + cut.head);
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      if (turn.at + j * stride < cut.elements) {
        units[j] = from[turn.at + j * stride];
      }
    }
  };
  const auto store = [&](int rank, std::int64_t at, const Unit(&units)[kAtOnce]) {
    auto* const to = reinterpret_cast<Unit*>(parts.outputs[rank] + cut.head);
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      if (at + j * stride < cut.elements) {
        to[at + j * stride] = units[j];
      }
    }
  };
  Unit inputs[kInputs][kAtOnce] = {};
  typename R::Accumulator sums[kAtOnce];
  Turn now{.at = static_cast<std::int64_t>(block) * kThreads + threadIdx.x, .rank = 0};
  Turn next = now;
#pragma unroll
  for (int i = 0; i < kInputs; ++i) {
    load(next, inputs[i]);
    advance(next);
  }
#pragma unroll 1
  while (now.at < cut.elements) {
#pragma unroll
    for (int i = 0; i < kInputs; ++i) {
      if (now.at >= cut.elements) {
        break;
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        if (now.rank == 0) {
          R::begin(sums[j], inputs[i][j]);
        } else {
          R::add(sums[j], inputs[i][j]);
        }
      }
      if (now.rank == direct.ranks - 1) {
        Unit results[kAtOnce];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          results[j] = R::finish(sums[j], direct);
        }
        store(direct.rank, now.at, results);
#pragma unroll 1
        for (int distance = 1; call.stores_in_peers() && distance < direct.ranks; ++distance) {
          store(peer_at(direct, distance), now.at, results);
        }
      }
      load(next, inputs[i]);
      advance(now);
      advance(next);
    }
  }
  if (block == 0 && threadIdx.x == 0 && cut.head > 0) {
    reduce_edge<R>(call, parts, 0, cut.head);
  }
  if (block == 0 && threadIdx.x == 32 && cut.tail > 0) {
    reduce_edge<R>(call, parts, cut.tail_at(), cut.tail);
  }
}

// This block's parts of the call in packets. Out of line, so that it takes no registers from what
// is usual.
template <class R>
__device__ __noinline__ bool run_packets_of(const ReadingCall& call) {
  bool alive = true;
#pragma unroll 1
  for (auto part = static_cast<int>(blockIdx.x); part < call.direct.blocks;
       part += static_cast<int>(gridDim.x)) {
    // The parts behind one that failed, too: each leaves at its first look at the error word, and
    // marks itself as given up.
    alive = run_block<Slots, R>(call.direct, part) && alive;
  }
  return alive;
}

// Last of all, to all others: by a thread for each.
__device__ __forceinline__ void report_done(const ReadingCall& call, int block, bool alive) {
  __syncthreads();
  const DirectCall& direct = call.direct;
  const auto peer = static_cast<int>(threadIdx.x);
  if (peer >= direct.ranks || peer == direct.rank) {
    return;
  }
  const MessagePut& put = call.peers[peer].as_sender;
  const int first = kAddressesOfBlock * block;
  for (int i = 0; i < kAddressesOfBlock; ++i) {
    std::uint64_t& counted = put.messages[first + i];
    counted = alive ? counted + 1 : kGivenUp;
  }
  if (alive) {
    // Release: what all threads of the block have read and stored comes before. Partner:
    // await_all_done.
    store_release_system(put.done + first, done_word(put.messages[first], direct.fingerprint));
  }
}

// By the first block: a thread for each block of each other rank. False, for all threads, when the
// kernel has to leave.
__device__ __forceinline__ bool await_all_done(const ReadingCall& call, bool alive) {
  const DirectCall& direct = call.direct;
  const auto index = static_cast<int>(threadIdx.x);
  const int peer = index / call.readers;
  const int first = kAddressesOfBlock * (index % call.readers);
  const bool waits = peer < direct.ranks && peer != direct.rank;
  const MessagePut& put = call.peers[waits ? peer : 0].as_receiver;
  const std::uint64_t number = waits ? put.messages[first] + 1 : 0;
  std::uint64_t since = 0;
  for (int spins = 1; alive; ++spins) {
    // Partner: the release of report_done.
    const bool here =
        !waits || load_acquire_system(put.done + first) == done_word(number, direct.fingerprint);
    const std::uint32_t missing = __ballot_sync(~0u, !here);
    if (missing == 0) {
      break;
    }
    if (spins % kPatience == 0) {
      const int late = __ffs(missing) - 1;
      since = look_up(direct.error_word,
                      direct.deadline_ns,
                      since,
                      {__shfl_sync(~0u, peer, late),
                       __shfl_sync(~0u, first / kAddressesOfBlock, late),
                       __shfl_sync(~0u, number, late)});
      alive = since != 0;
    }
  }
  alive = __syncthreads_and(alive ? 1 : 0) != 0;
  if (alive && waits) {
    for (int i = 0; i < kAddressesOfBlock; ++i) {
      ++put.messages[first + i];
    }
  }
#pragma unroll 1
  for (int other = 0; !alive && other < direct.ranks; ++other) {
    if (other != direct.rank) {
      withdraw_offers(call.peers[other].as_receiver);
    }
  }
  return alive;
}

template <class R>
__global__ void __launch_bounds__(kThreads)
    reading_kernel(const __grid_constant__ ReadingCall call) {
  __shared__ Parts parts;
  await_stream();
  const auto block = static_cast<int>(blockIdx.x);
  if (block >= call.readers) {
    run_packets_of<R>(call);
    return;
  }
  bool alive = block != 0 || announce_buffers(call);
  bool is_whole = false;
  alive = alive && await_buffers(call, block, parts, is_whole);
  if (alive && is_whole) {
    reduce_part<R>(call, parts, block);
  } else if (alive) {
    alive = run_packets_of<R>(call);
  }
  report_done(call, block, alive);
  if (block == 0) {
    await_all_done(call, alive);
  }
}

}  // namespace sennit::sm
