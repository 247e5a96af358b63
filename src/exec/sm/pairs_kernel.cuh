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

  __device__ Share(const Cut<T>& cut, int block, int blocks)
      : at(static_cast<std::int64_t>(block) * kThreads + threadIdx.x),
        stride(static_cast<std::int64_t>(blocks) * kThreads),
        elements(cut.elements) {}

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
        share(cut, block_index, blocks) {}

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

  // Less than an element before the others, and behind them: of one block.
  __device__ __forceinline__ void copy_edges(std::byte* to) const {
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
};

// Where source and destination lie apart, in elements that both have whole.
template <class T>
__device__ __forceinline__ void put_apart(const PairCall& call, std::byte* to, int block) {
  const ByteRange range = call.push[1];
  Put<T> put(call.input + range.begin, range.length, block, call.blocks);
  put.load();
  put.run(to);
  put.copy_edges(to);
}

// What is offered to a block, once it is.
struct Offer {
  bool is_here = false;
  std::byte* to = nullptr;
};

// Waits for this block's offer; kFirstLook: for a while. One warp looks for all.
template <bool kFirstLook>
__device__ __forceinline__ Offer await_offer(const PairMessage& message,
                                             int block,
                                             std::uint64_t number) {
  __shared__ std::uint64_t address;
  const PairCall& call = message.call;
  bool is_here = true;
  if (threadIdx.x < 32) {
    const auto lane = static_cast<int>(threadIdx.x);
    const bool looks = lane < kOfferWords;
    const LlFlags flags = offer_flags(number, call.fingerprint);
    const std::uint64_t* const own = message.put.offers + block * kOfferWords + lane;
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
          since = look_up(call.board, call.deadline_ns, since, {message.call.peer, block, number});
        }
        is_here = since != 0;
      }
    }
    const std::uint64_t second = __shfl_sync(~0u, word, 1);
    if (lane == 0) {
      address = offered_address(word, second);
    }
  }
  is_here = __syncthreads_and(is_here ? 1 : 0) != 0;
  return {is_here, reinterpret_cast<std::byte*>(address)};
}

// What is left of a message once its two ends have spoken.
enum class Rest : std::uint8_t { kNothing, kPackets, kGone };

// A block's part of sending, if the offer is a buffer. What it stores first is loaded while the
// offer is on its way; who waits for long loads it again, so that no register outlives the call
// that looks at the clock.
static __device__ __forceinline__ Rest store_message(const PairMessage& message, int block) {
  const PairCall& call = message.call;
  const std::uint64_t number = message.put.messages[block] + 1;
  if (number == kGivenUp + 1) {
    return Rest::kGone;
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
    return Rest::kGone;
  }
  if (offer.to == nullptr) {
    return Rest::kPackets;
  }
  const std::uintptr_t apart =
      reinterpret_cast<std::uintptr_t>(put.from) ^ reinterpret_cast<std::uintptr_t>(offer.to);
  if (apart % sizeof(Unit) == 0) {
    put.run(offer.to);
    put.copy_edges(offer.to);
  } else if (apart % sizeof(std::uint32_t) == 0) {
    put_apart<std::uint32_t>(call, offer.to, block);
  } else {
    put_apart<std::uint8_t>(call, offer.to, block);
  }
  return Rest::kNothing;
}

// Once the block's part of sending is over.
__device__ __forceinline__ void tell_done(const PairMessage& message, int block, Rest rest) {
  __syncthreads();
  if (threadIdx.x != 0) {
    return;
  }
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

// The two ends speak first, and last of all the sender says that it has done its part. False, for
// all threads, when the block had to leave.
template <bool kOnHost>
__device__ __forceinline__ bool run_message(const PairMessage& message, int block) {
  const bool sends = message.is_send();
  const bool speaks = !kOnHost && message.put.takes_part && (sends || block == 0);
  Rest rest = Rest::kPackets;
  if (speaks) {
    rest = sends ? store_message(message, block) : offer_buffer(message);
  }
  if (rest == Rest::kPackets && !run_packets<kOnHost>(message.call, block)) {
    rest = Rest::kGone;
  }
  if (speaks && sends) {
    tell_done(message, block, rest);
  } else if (speaks && !await_done(message, rest != Rest::kGone)) {
    rest = Rest::kGone;
  }
  return rest != Rest::kGone;
}

// For arenas in memory of GPUs, or (kOnHost) for those in host memory. Pairs is a template
// parameter so that each file that asks for the kernel has it, as with direct_kernel.
template <class Pairs, bool kOnHost>
__global__ void __launch_bounds__(kThreads) pairs_kernel(const __grid_constant__ Pairs pairs) {
  __shared__ alignas(PairMessage) std::byte memory[sizeof(PairMessage)];
  const PairMessage& message = *reinterpret_cast<const PairMessage*>(memory);
  const int receiving = pairs.recvs.all_blocks();
  const bool receives = static_cast<int>(blockIdx.x) < receiving;
  const PairLanes& way = receives ? pairs.recvs : pairs.sends;
  const int index = static_cast<int>(blockIdx.x) - (receives ? 0 : receiving);
  const int lane = index / way.blocks;
  const int block = index % way.blocks;
  for (int chain = way.first + lane; chain < way.first + way.chains; chain += way.lanes) {
    for (int i = pairs.begin[chain]; i < pairs.begin[chain + 1]; ++i) {
      if (block >= pairs.messages[i].blocks()) {
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
      if (!run_message<kOnHost>(message, block)) {
        return;
      }
    }
  }
}

}  // namespace sennit::sm
