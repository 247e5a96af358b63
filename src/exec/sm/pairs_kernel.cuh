// The kernel of sends and recvs: the messages of a lane one after the other
// (exec/sm/message_kernel.cuh), or, of a collective, all that a rank sends in turn.
#pragma once

#include "exec/early_launch.cuh"
#include "exec/sm/message_kernel.cuh"

namespace sennit::sm {

// One block's part of a message that is stored in turn with others.
struct Strand {
  const std::byte* from;
  std::byte* to;
  std::int64_t units;  // 0: not stored in turn
  std::int32_t head;   // bytes before the first unit
  std::int32_t blocks;
  Rest rest;

  __device__ std::int64_t first(int block, std::int64_t round) const {
    return (round * kHeld * blocks + block) * kThreads;
  }
  __device__ Share<Unit> share(int block, std::int64_t round) const {
    return {.at = first(block, round) + threadIdx.x,
            .stride = static_cast<std::int64_t>(blocks) * kThreads,
            .elements = units};
  }
};

// Of the message that a warp awaits the offer of.
__device__ __forceinline__ Strand strand_of(const PairMessage& message, int block) {
  const PairCall& call = message.call;
  const ByteRange range = call.push[1];
  Strand strand{.from = call.input + range.begin,
                .to = nullptr,
                .units = 0,
                .head = 0,
                .blocks = message.step(),
                .rest = Rest::kNothing};
  if (block >= message.step()) {
    return strand;
  }
  const std::uint64_t number = message.put.messages[block] + 1;
  Offer offer;  // none
  if (number != kGivenUp + 1) {
    offer = await_offer_by_warp</*kFirstLook=*/false>(message, block, number);
  }
  strand.to = offer.to;
  strand.rest = !offer.is_here                      ? Rest::kGone
                : offer.to == nullptr               ? Rest::kPackets
                : !are_alike(strand.from, offer.to) ? Rest::kApart
                                                    : Rest::kNothing;
  if (strand.rest == Rest::kNothing) {
    const Cut<Unit> cut(reinterpret_cast<std::uintptr_t>(strand.from), range.length);
    strand.head = static_cast<std::int32_t>(cut.head);
    strand.units = cut.elements;
  }
  return strand;
}

// The sends of a rank, one to each other, by blocks that store a piece of each in turn: so no peer
// gets more than others at a time, and what all get is loaded once. Where one has to be given up,
// all are.
template <class Pairs>
struct Braid {
  Strand strands[kMaxBraided];
  bool is_same;  // all send the same

  __device__ __forceinline__ void await(const Pairs& pairs, int block) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    if (warp < pairs.sends.chains) {
      const Strand strand = strand_of(pairs.messages[pairs.begin[warp]], block);
      if (threadIdx.x % 32 == 0) {
        strands[warp] = strand;
      }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      is_same = true;
      bool is_gone = false;
      for (int i = 0; i < pairs.sends.chains; ++i) {
        is_same &= strands[i].from == strands[0].from && strands[i].units == strands[0].units;
        is_gone |= strands[i].rest == Rest::kGone;
      }
      for (int i = 0; is_gone && i < pairs.sends.chains; ++i) {
        strands[i].units = 0;
        strands[i].rest = Rest::kGone;
      }
    }
    __syncthreads();
  }

  __device__ __forceinline__ void store(int sends, int block) const {
    Unit held[kHeld];
    bool is_left = true;
#pragma unroll 1
    for (std::int64_t round = 0; is_left; ++round) {
      is_left = false;
#pragma unroll 1
      for (int i = 0; i < sends; ++i) {
        const Strand& strand = strands[i];
        if (strand.first(block, round) >= strand.units) {
          continue;
        }
        const Share<Unit> share = strand.share(block, round);
        if (i == 0 || !is_same) {
          share.load(reinterpret_cast<const Unit*>(strand.from + strand.head), held);
        }
        share.store(reinterpret_cast<Unit*>(strand.to + strand.head), held);
        is_left = true;
      }
    }
  }

  // What does not fill a unit; and all that was stored is over, which a receiver awaits of every
  // part, whoever has it. A warp for each receiver, so that its parts are signalled at once.
  __device__ __forceinline__ void finish(const Pairs& pairs, int block) const {
    const int sends = pairs.sends.chains;
#pragma unroll 1
    for (int i = 0; i < sends; ++i) {
      const Strand& strand = strands[i];
      if (strand.rest == Rest::kNothing) {
        const std::int64_t bytes = pairs.messages[pairs.begin[i]].call.push[1].length;
        const Cut<Unit> cut(reinterpret_cast<std::uintptr_t>(strand.from), bytes);
        copy_edges(strand.from, strand.to, cut, block);
      }
    }
    __syncthreads();
    const int warp = static_cast<int>(threadIdx.x) / 32;
    if (warp >= sends || strands[warp].rest != Rest::kNothing) {
      return;
    }
    const PairMessage& message = pairs.messages[pairs.begin[warp]];
    const int step = message.step();
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int end = block < step ? message.call.blocks : 0;
#pragma unroll 1
    for (int part = block + lane * step; part < end; part += 32 * step) {
      count_and_tell(message, part, Rest::kNothing);
    }
  }
};

// Of a block that has to leave: all that is left in its lane. Else who was skipped would run in the
// next kernel, and that one's message take the place of this one's, at a peer who still waits. Out
// of line, so that it takes no registers from what goes well.
template <class Pairs>
__device__ __noinline__ void give_up_lane(const Pairs& pairs, bool receives, int chain, int block) {
  const PairLanes& way = receives ? pairs.recvs : pairs.sends;
#pragma unroll 1
  for (int later = chain; later < way.chains; later += way.lanes) {
#pragma unroll 1
    for (int i = pairs.begin[way.first + later]; i < pairs.begin[way.first + later + 1]; ++i) {
      const PairMessage& message = pairs.messages[i];
      if (receives && block == 0 && message.put.takes_part) {
        withdraw_offers(message.put);
      }
      if (const int part = part_of_thread(message, block); part < message.call.blocks) {
        message.call.states[part].round = kGivenUp;
        if (!receives && message.put.takes_part) {
          message.put.messages[part] = kGivenUp;
        }
      }
    }
  }
}

// For FIFOs in memory of GPUs, or (kOnHost) for those in host memory. Pairs is a template
// parameter so that each file that asks for the kernel has it, as with direct_kernel.
template <class Pairs, bool kOnHost>
__global__ void __launch_bounds__(kThreads) pairs_kernel(const __grid_constant__ Pairs pairs) {
  __shared__ alignas(PairMessage) std::byte memory[sizeof(PairMessage)];
  __shared__ Braid<Pairs> braid;
  await_stream();
  const PairMessage& message = *reinterpret_cast<const PairMessage*>(memory);
  const int receiving = pairs.recvs.all_blocks();
  const bool receives = static_cast<int>(blockIdx.x) < receiving;
  const PairLanes& way = receives ? pairs.recvs : pairs.sends;
  const int index = static_cast<int>(blockIdx.x) - (receives ? 0 : receiving);
  const int lane = index / way.blocks;
  const int block = index % way.blocks;
  const bool is_braid = !kOnHost && pairs.is_braid;
  if (is_braid && !receives) {
    braid.await(pairs, block);
    braid.store(way.chains, block);
    braid.finish(pairs, block);
  }
  if (is_braid && receives && block == 0) {
    // Senders wait for all offers before they store anything.
    for (int chain = lane; chain < way.chains; chain += way.lanes) {
      const Rest rest = offer_buffer(pairs.messages[pairs.begin[way.first + chain]]);
      if (threadIdx.x == 0) {
        braid.strands[chain].rest = rest;
      }
    }
  }
  for (int chain = lane; chain < way.chains; chain += way.lanes) {
    for (int i = pairs.begin[way.first + chain]; i < pairs.begin[way.first + chain + 1]; ++i) {
      const bool is_over = is_braid && !receives && braid.strands[chain].rest == Rest::kNothing;
      if (is_over || block >= pairs.messages[i].blocks()) {
        continue;
      }
      // The next message between these ranks goes on from the round that this one has written.
      __syncthreads();
      constexpr int kWords = sizeof(PairMessage) / sizeof(std::uint64_t);
      if (const int at = static_cast<int>(threadIdx.x); at < kWords) {
        reinterpret_cast<std::uint64_t*>(memory)[at] =
            reinterpret_cast<const std::uint64_t*>(&pairs.messages[i])[at];
      }
      __syncthreads();
      Spoken spoken;
      if (speaks<kOnHost>(message, block)) {
        const Strand& strand = braid.strands[chain];
        spoken = is_braid            ? Spoken{strand.rest, strand.to}
                 : message.is_send() ? store_message(message, block)
                                     : Spoken{offer_buffer(message)};
      }
      if (!finish_message<kOnHost>(message, block, spoken)) {
        give_up_lane(pairs, receives, chain, block);
        return;
      }
    }
  }
}

}  // namespace sennit::sm
