// The kernel of sends and recvs: each as packets, as the direct kernel moves them, or, where its
// two ends take part in that (exec/sm/message_put.hpp), by stores into the receiver's buffer.
#pragma once

#include "exec/sm/direct_kernel.cuh"
#include "exec/sm/message_put.hpp"

namespace sennit::sm {

// Elements of a thread that are loaded before the first is stored: those of 64 blocks are 4 MB, so
// that a message of that size is on its way to the registers while its offer is.
inline constexpr int kHeld = 8;

// A block's part of a message in packets. False, for all threads, when it had to leave.
template <bool kOnHost>
__device__ __forceinline__ bool run_packets(const PairCall& call, int block) {
  if (call.packets == Packets::kLl) {
    return run_block<Ll, NoReduction>(call, block);
  }
  if constexpr (kOnHost) {
    return run_block<Plain, NoReduction>(call, block);
  } else if (call.packets == Packets::kLl128) {
    return run_block<Ll128, NoReduction>(call, block);
  } else {
    return run_block<Slots, NoReduction>(call, block);
  }
}

// A thread's elements of a range: of every slice that is its block's, one.
template <class T>
struct Share {
  std::int64_t at;  // the next element
  std::int64_t stride;
  std::int64_t elements;

  __device__ bool is_left() const { return at < elements; }
  __device__ void advance() { at += kHeld * stride; }

  __device__ __forceinline__ void load(const T* from, T (&held)[kHeld]) const {
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      // Nothing that was held before is kept, so that it need not outlive a wait.
      held[j] = at + j * stride < elements ? from[at + j * stride] : T{};
    }
  }
  __device__ __forceinline__ void store(T* to, const T (&held)[kHeld]) const {
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      if (at + j * stride < elements) {
        to[at + j * stride] = held[j];
      }
    }
  }
};

// A message that is stored where it belongs, and one block's part of it.
template <class T>
struct Put {
  const std::byte* from;
  int block;
  Cut<T> cut;
  Share<T> share;
  T held[kHeld];

  __device__ Put(const std::byte* begin, std::int64_t bytes, int block_index, int blocks)
      : from(begin),
        block(block_index),
        cut(reinterpret_cast<std::uintptr_t>(begin), bytes),
        share{.at = static_cast<std::int64_t>(block_index) * kThreads + threadIdx.x,
              .stride = static_cast<std::int64_t>(blocks) * kThreads,
              .elements = cut.elements} {}

  __device__ __forceinline__ void load() {
    share.load(reinterpret_cast<const T*>(from + cut.head), held);
  }

  // The first elements are held already.
  __device__ __forceinline__ void run(std::byte* to) {
    T* const elements = reinterpret_cast<T*>(to + cut.head);
#pragma unroll 1
    while (share.is_left()) {
      share.store(elements, held);
      share.advance();
      load();
    }
  }
};

// Less than an element before the others, and behind them: of one block.
template <class T>
__device__ __forceinline__ void copy_edges(const std::byte* from,
                                           std::byte* to,
                                           const Cut<T>& cut,
                                           int block) {
  if (block != 0) {
    return;
  }
  const auto thread = static_cast<std::int64_t>(threadIdx.x);
  if (thread < cut.head) {
    to[thread] = from[thread];
  }
  if (thread < cut.tail) {
    to[cut.tail_at() + thread] = from[cut.tail_at() + thread];
  }
}

// Both have their whole units at the same places.
__device__ __forceinline__ bool are_alike(const std::byte* from, const std::byte* to) {
  return (reinterpret_cast<std::uintptr_t>(from) ^ reinterpret_cast<std::uintptr_t>(to)) %
             sizeof(Unit) ==
         0;
}

// Where they do not, in elements that both have whole.
template <class T>
__device__ __forceinline__ void put_apart(const PairCall& call, std::byte* to, int block) {
  const ByteRange range = call.push[1];
  Put<T> put(call.input + range.begin, range.length, block, call.blocks);
  put.load();
  put.run(to);
  copy_edges(put.from, to, put.cut, block);
}

static __device__ __forceinline__ void store_apart(const PairCall& call, std::byte* to, int block) {
  const auto from = reinterpret_cast<std::uintptr_t>(call.input + call.push[1].begin);
  if ((from ^ reinterpret_cast<std::uintptr_t>(to)) % sizeof(std::uint32_t) == 0) {
    put_apart<std::uint32_t>(call, to, block);
  } else {
    put_apart<std::uint8_t>(call, to, block);
  }
}

// What is offered to a block, once it is.
struct Offer {
  bool is_here = false;
  std::byte* to = nullptr;
};

// Waits for this block's offer; kFirstLook: for a while. By one warp.
template <bool kFirstLook>
__device__ __forceinline__ Offer await_offer_by_warp(const PairMessage& message,
                                                     int block,
                                                     std::uint64_t number) {
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const bool looks = lane < kOfferWords;
  const LlFlags flags = offer_flags(number, message.call.fingerprint);
  const std::uint64_t* const own = message.put.offers + block * kOfferWords + lane;
  bool is_here = true;
  std::uint64_t word = 0;
  std::uint64_t since = 0;
  for (int spins = 1; is_here; ++spins) {
    // Partner: make_offer.
    word = looks ? load_acquire_system(own) : 0;
    if (__all_sync(~0u, !looks || is_offer(word, lane, flags))) {
      break;
    }
    if (spins % kPatience == 0) {
      if constexpr (!kFirstLook) {
        since = look_up(message.call.board,
                        message.call.deadline_ns,
                        since,
                        {message.call.peer, block, number});
      }
      is_here = since != 0;
    }
  }
  const std::uint64_t first = __shfl_sync(~0u, word, 0);
  const std::uint64_t second = __shfl_sync(~0u, word, 1);
  return {is_here, reinterpret_cast<std::byte*>(offered_address(first, second))};
}

// For all threads. One warp looks for all.
template <bool kFirstLook>
__device__ __forceinline__ Offer await_offer(const PairMessage& message,
                                             int block,
                                             std::uint64_t number) {
  __shared__ std::byte* address;
  bool is_here = true;
  if (threadIdx.x < 32) {
    const Offer offer = await_offer_by_warp<kFirstLook>(message, block, number);
    is_here = offer.is_here;
    if (threadIdx.x == 0) {
      address = offer.to;
    }
  }
  is_here = __syncthreads_and(is_here ? 1 : 0) != 0;
  return {is_here, address};
}

// What is left of a message once its two ends have spoken. kApart: source and destination lie
// apart.
enum class Rest : std::uint8_t { kNothing, kApart, kPackets, kGone };

struct Spoken {
  Rest rest = Rest::kPackets;
  std::byte* to = nullptr;  // of kApart
};

// A block's part of sending, if the offer is a buffer. What it stores first is loaded while the
// offer is on its way; who waits for long loads it again, so that no register outlives the call
// that looks at the clock.
static __device__ __forceinline__ Spoken store_message(const PairMessage& message, int block) {
  const PairCall& call = message.call;
  const std::uint64_t number = message.put.messages[block] + 1;
  if (number == kGivenUp + 1) {
    return {Rest::kGone};
  }
  const ByteRange range = call.push[1];
  Put<Unit> put(call.input + range.begin, range.length, block, call.blocks);
  put.load();
  Offer offer = await_offer</*kFirstLook=*/true>(message, block, number);
  if (!offer.is_here) {
    offer = await_offer</*kFirstLook=*/false>(message, block, number);
    put.load();
  }
  if (!offer.is_here) {
    return {Rest::kGone};
  }
  if (offer.to == nullptr) {
    return {Rest::kPackets};
  }
  if (!are_alike(put.from, offer.to)) {
    return {Rest::kApart, offer.to};
  }
  put.run(offer.to);
  copy_edges(put.from, offer.to, put.cut, block);
  return {Rest::kNothing};
}

// Once the block's part of sending is over; by one thread, behind a barrier of them all.
__device__ __forceinline__ void count_and_tell(const PairMessage& message, int block, Rest rest) {
  std::uint64_t& counted = message.put.messages[block];
  counted = rest == Rest::kGone ? kGivenUp : counted + 1;
  std::uint64_t* const word = message.put.done + block;
  const std::uint64_t done = done_word(counted, message.call.fingerprint);
  if (rest == Rest::kNothing) {
    // Release: what all threads of the block have stored comes before. Partner: await_done.
    store_release_system(word, done);
  } else if (rest == Rest::kPackets) {
    store_relaxed_system(word, done);  // packets speak for themselves: the offer has been read
  }
}

__device__ __forceinline__ void tell_done(const PairMessage& message, int block, Rest rest) {
  __syncthreads();
  if (threadIdx.x == 0) {
    count_and_tell(message, block, rest);
  }
}

// To the block of the sender that has this thread's index. The end of the kernel before this one
// orders what was done with the buffer.
__device__ __forceinline__ void make_offer(const PairMessage& message, std::uint64_t number) {
  const LlFlags flags = offer_flags(number, message.call.fingerprint);
  const auto address = reinterpret_cast<std::uint64_t>(message.put.there);
  std::uint64_t* const words = message.put.offers + threadIdx.x * kOfferWords;
#pragma unroll
  for (int i = 0; i < kOfferWords; ++i) {
    // Partner: await_offer.
    store_relaxed_system(words + i, offer_word(address, i, flags));
  }
}

// Who has not read it yet will not.
__device__ __forceinline__ void withdraw_offer(const PairMessage& message) {
  store_relaxed_system(message.put.offers + threadIdx.x * kOfferWords, 0);
}

// The first block of a receiver speaks with all blocks of the sender, by a thread each; others have
// packets alone. Once a message was given up, nothing is offered to any block of its sender.
static __device__ __forceinline__ Rest offer_buffer(const PairMessage& message) {
  const MessagePut& put = message.put;
  const auto block = static_cast<int>(threadIdx.x);
  const std::uint64_t number = block < put.most_blocks ? put.messages[block] + 1 : 0;
  if (__syncthreads_or(number == kGivenUp + 1 && block < put.most_blocks ? 1 : 0) != 0) {
    return Rest::kGone;
  }
  if (block < message.call.blocks) {
    make_offer(message, number);
  }
  return put.there == nullptr ? Rest::kPackets : Rest::kNothing;
}

// Waits until each block of the sender has done its part, if this end is `alive`. False when the
// kernel has to leave.
static __device__ __forceinline__ bool await_done(const PairMessage& message, bool alive) {
  const PairCall& call = message.call;
  const MessagePut& put = message.put;
  const auto block = static_cast<int>(threadIdx.x);
  const bool waits = block < call.blocks;
  const std::uint64_t number = waits ? put.messages[block] + 1 : 0;
  std::uint64_t since = 0;
  for (int spins = 1; alive; ++spins) {
    // Partner: the release of tell_done.
    const bool here =
        !waits || load_acquire_system(put.done + block) == done_word(number, call.fingerprint);
    const std::uint32_t missing = __ballot_sync(~0u, !here);
    if (missing == 0) {
      break;
    }
    if (spins % kPatience == 0) {
      const int late = (block & ~31) + __ffs(missing) - 1;
      since = look_up(call.board, call.deadline_ns, since, {call.peer, late, number});
      alive = since != 0;
    }
  }
  alive = __syncthreads_and(alive ? 1 : 0) != 0;
  if (alive && waits) {
    put.messages[block] = number;
  } else if (!alive && block < put.most_blocks) {
    put.messages[block] = kGivenUp;
    withdraw_offer(message);
  }
  return alive;
}

// Whether this block speaks with the other end: every block of a sender, the first of a receiver.
template <bool kOnHost>
__device__ __forceinline__ bool speaks(const PairMessage& message, int block) {
  return !kOnHost && message.put.takes_part && (message.is_send() || block == 0);
}

// What is left once its ends have spoken. Last of all the sender says that it has done its part.
// False, for all threads, when the block had to leave.
template <bool kOnHost>
__device__ __forceinline__ bool finish_message(const PairMessage& message,
                                               int block,
                                               const Spoken& spoken) {
  Rest rest = spoken.rest;
  if (rest == Rest::kApart) {
    store_apart(message.call, spoken.to, block);
    rest = Rest::kNothing;
  }
  if (rest == Rest::kPackets && !run_packets<kOnHost>(message.call, block)) {
    rest = Rest::kGone;
  }
  if (speaks<kOnHost>(message, block)) {
    if (message.is_send()) {
      tell_done(message, block, rest);
    } else if (!await_done(message, rest != Rest::kGone)) {
      rest = Rest::kGone;
    }
  }
  return rest != Rest::kGone;
}

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
                .blocks = call.blocks,
                .rest = Rest::kNothing};
  if (block >= call.blocks) {
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

  // What does not fill a unit; and all that was stored is over. One thread for each receiver: their
  // fences are one.
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
    if (const int i = static_cast<int>(threadIdx.x); i < sends) {
      const PairMessage& message = pairs.messages[pairs.begin[i]];
      if (strands[i].rest == Rest::kNothing && block < message.call.blocks) {
        count_and_tell(message, block, Rest::kNothing);
      }
    }
  }
};

// For arenas in memory of GPUs, or (kOnHost) for those in host memory. Pairs is a template
// parameter so that each file that asks for the kernel has it, as with direct_kernel.
template <class Pairs, bool kOnHost>
__global__ void __launch_bounds__(kThreads) pairs_kernel(const __grid_constant__ Pairs pairs) {
  __shared__ alignas(PairMessage) std::byte memory[sizeof(PairMessage)];
  __shared__ Braid<Pairs> braid;
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
        spoken = is_braid   ? Spoken{strand.rest, strand.to}
                 : receives ? Spoken{offer_buffer(message)}
                            : store_message(message, block);
      }
      if (!finish_message<kOnHost>(message, block, spoken)) {
        return;
      }
    }
  }
}

}  // namespace sennit::sm
