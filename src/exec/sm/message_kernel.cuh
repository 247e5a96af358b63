// How one block carries its part of one message (exec/sm/pairs_kernel.cuh): as packets, as the
// direct kernel moves them, or, where its two ends take part in that (memory/message_put.hpp), by
// stores into the receiver's buffer.
#pragma once

#include "exec/sm/direct_kernel.cuh"
#include "memory/message_put.hpp"

namespace sennit::sm {

// Elements of a thread that are loaded before the first is stored: those of 64 blocks are 4 MB, so
// that a message of that size is on its way to the registers while its offer is.
inline constexpr int kHeld = 8;

// A part of a message in packets. False, for all threads, when it had to leave.
template <bool kOnHost>
__device__ __forceinline__ bool run_part(const PairCall& call, int block) {
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

// A block's parts of a message in packets. Where one failed, the others are given up with its lane.
template <bool kOnHost>
__device__ __forceinline__ bool run_packets(const PairMessage& message, int block) {
#pragma unroll 1
  for (int part = block; part < message.call.blocks; part += message.step()) {
    if (!run_part<kOnHost>(message.call, part)) {
      return false;
    }
  }
  return true;
}

// A thread's elements of a range: of every slice that is its block's, one.
template <class T>
struct Share {
  std::int64_t at;  // the next element
  std::int64_t stride;
  std::int64_t elements;

  __device__ bool is_left() const { return at < elements; }
  __device__ void advance() { at += kHeld * stride; }

  template <int kFrom = 0, int kTo = kHeld>
  __device__ __forceinline__ void load(const T* from, T (&held)[kHeld]) const {
#pragma unroll
    for (int j = kFrom; j < kTo; ++j) {
      // Nothing that was held before is kept, so that it need not outlive a wait.
      held[j] = at + j * stride < elements ? from[at + j * stride] : T{};
    }
  }
  template <int kFrom = 0, int kTo = kHeld>
  __device__ __forceinline__ void store(T* to, const T (&held)[kHeld]) const {
#pragma unroll
    for (int j = kFrom; j < kTo; ++j) {
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

  // The first elements are held already. Each half is loaded again while the other one is stored.
  __device__ __forceinline__ void run(std::byte* to) {
    constexpr int kHalf = kHeld / 2;
    const T* const source = reinterpret_cast<const T*>(from + cut.head);
    T* const elements = reinterpret_cast<T*>(to + cut.head);
#pragma unroll 1
    while (share.is_left()) {
      Share<T> next = share;
      next.advance();
      share.template store<0, kHalf>(elements, held);
      next.template load<0, kHalf>(source, held);
      share.template store<kHalf, kHeld>(elements, held);
      next.template load<kHalf, kHeld>(source, held);
      share = next;
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
__device__ __forceinline__ void put_apart(const PairMessage& message, std::byte* to, int block) {
  const ByteRange range = message.call.push[1];
  Put<T> put(message.call.input + range.begin, range.length, block, message.step());
  put.load();
  put.run(to);
  copy_edges(put.from, to, put.cut, block);
}

static __device__ __forceinline__ void store_apart(const PairMessage& message,
                                                   std::byte* to,
                                                   int block) {
  const PairCall& call = message.call;
  const auto from = reinterpret_cast<std::uintptr_t>(call.input + call.push[1].begin);
  if ((from ^ reinterpret_cast<std::uintptr_t>(to)) % sizeof(std::uint32_t) == 0) {
    put_apart<std::uint32_t>(message, to, block);
  } else {
    put_apart<std::uint8_t>(message, to, block);
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
  const bool looks = lane < kAddressWords;
  const LlFlags flags = address_flags(number, message.call.fingerprint);
  const std::uint64_t* const own = message.put.addresses + block * kAddressWords + lane;
  bool is_here = true;
  std::uint64_t word = 0;
  std::uint64_t since = 0;
  for (int spins = 1; is_here; ++spins) {
    // Partner: make_offer.
    word = looks ? load_acquire_system(own) : 0;
    if (__all_sync(~0u, !looks || is_address(word, lane, flags))) {
      break;
    }
    if (spins % kPatience == 0) {
      if constexpr (!kFirstLook) {
        since = look_up(message.call.error_word,
                        message.call.deadline_ns,
                        since,
                        {message.call.peer, block, number});
      }
      is_here = since != 0;
    }
  }
  const std::uint64_t first = __shfl_sync(~0u, word, 0);
  const std::uint64_t second = __shfl_sync(~0u, word, 1);
  return {is_here, reinterpret_cast<std::byte*>(address_from(first, second))};
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
  Put<Unit> put(call.input + range.begin, range.length, block, message.step());
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

// Once the block's share of sending is over; by one thread, behind a barrier of them all.
__device__ __forceinline__ void count_and_tell(const PairMessage& message, int part, Rest rest) {
  std::uint64_t& counted = message.put.messages[part];
  counted = rest == Rest::kGone ? kGivenUp : counted + 1;
  std::uint64_t* const word = message.put.done + part;
  const std::uint64_t done = done_word(counted, message.call.fingerprint);
  if (rest == Rest::kNothing) {
    // Release: what all threads of the block have stored comes before. Partner: await_done.
    store_release_system(word, done);
  } else if (rest == Rest::kPackets) {
    store_relaxed_system(word, done);  // packets speak for themselves: the offer has been read
  }
}

// Of the block's parts, that of this thread, if they are so many.
__device__ __forceinline__ int part_of_thread(const PairMessage& message, int block) {
  return block + static_cast<int>(threadIdx.x) * message.step();
}

// For all parts of the block: the receiver awaits each, whoever has it.
__device__ __forceinline__ void tell_done(const PairMessage& message, int block, Rest rest) {
  __syncthreads();
  if (const int part = part_of_thread(message, block); part < message.call.blocks) {
    count_and_tell(message, part, rest);
  }
}

// To the block of the sender that has this thread's index. The end of the kernel before this one
// orders what was done with the buffer.
__device__ __forceinline__ void make_offer(const PairMessage& message, std::uint64_t number) {
  const LlFlags flags = address_flags(number, message.call.fingerprint);
  const auto address = reinterpret_cast<std::uint64_t>(message.put.there);
  std::uint64_t* const words = message.put.addresses + threadIdx.x * kAddressWords;
#pragma unroll
  for (int i = 0; i < kAddressWords; ++i) {
    // Partner: await_offer.
    store_relaxed_system(words + i, address_word(address, i, flags));
  }
}

// By a thread for each block of the sender. Who has not read its offer yet will not, and there is
// none after it.
__device__ __forceinline__ void withdraw_offers(const MessagePut& put) {
  if (const auto block = static_cast<int>(threadIdx.x); block < put.most_blocks) {
    put.messages[block] = kGivenUp;
    store_relaxed_system(put.addresses + block * kAddressWords, 0);
  }
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
      since = look_up(call.error_word, call.deadline_ns, since, {call.peer, late, number});
      alive = since != 0;
    }
  }
  alive = __syncthreads_and(alive ? 1 : 0) != 0;
  if (!alive) {
    withdraw_offers(put);
  } else if (waits) {
    put.messages[block] = number;
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
    store_apart(message, spoken.to, block);
    rest = Rest::kNothing;
  }
  if (rest == Rest::kPackets && !run_packets<kOnHost>(message, block)) {
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

}  // namespace sennit::sm
