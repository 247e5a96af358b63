// SmallCall: a direct call of few bytes, with every address worked out beforehand.
//
// A call of a few microseconds has one warp a block, which can hide nothing: each instruction and
// each line of code counts. So calls of one round of one Ll packet a warp, in one hop, of blocks of
// one length, run on a kernel that only loads, stores and waits. Its packets are those of the
// direct kernel, bit for bit, so each rank may choose for itself; but through memory of the host it
// writes once what all read, so there all ranks run it or none, which follows from lengths alone.
#pragma once

#include "exec/sm/direct_call.hpp"

namespace sennit::sm {

template <int kRanks>
struct BasicSmallCall {
  static constexpr bool kIsPair = kRanks == 2;

  static constexpr int kMostRanks = kRanks;

  // Slots and words are those of block 0 and warp 0, in generation 0.
  struct Push {
    const std::byte* from = nullptr;
    std::byte* slot = nullptr;
  };
  struct Arrival {
    const std::byte* slot = nullptr;  // null: the own contribution to a reduction
    std::byte* to = nullptr;          // of what is not reduced
    int rank = 0;                     // the sender
  };
  std::array<Push, kRanks> push{};        // nearest rank first
  std::array<Arrival, kRanks> arrival{};  // farthest first; of reductions, in the order of ranks
  std::array<std::uint64_t*, kRanks> tell{};  // `started` words at ranks that get no packet
  const std::uint64_t* told = nullptr;        // `started` words of this rank; that of rank 0
  const std::byte* own_from = nullptr;        // null: no own block
  std::byte* own_to = nullptr;                // of reductions: where the result goes
  BlockState* states = nullptr;
  ErrorWord* error_word = nullptr;

  // Words of 32 bits: instructions take them out of the parameters by themselves.
  std::int32_t length = 0;  // of each block, in bytes
  std::int32_t pushes = 0;
  std::int32_t arrivals = 0;
  std::int32_t tells = 0;
  std::int32_t warps = 1;
  std::int32_t ranks = 1;
  std::int32_t peer = 0;  // see BasicDirectCall
  std::uint32_t generation_bytes = 0;
  std::uint32_t block_bytes = 0;
  std::uint32_t push_to = 0;  // ranks, as bits
  std::uint32_t unheard = 0;  // ranks from which no packet comes
  std::uint32_t fingerprint = 0;
  std::uint64_t deadline_ns = 0;
  // Blocks are no multiple of 16 bytes, or begin elsewhere than on boundaries of that.
  bool is_apart = false;
  bool on_host = false;                            // see BasicDirectCall
  alignas(16) std::array<std::byte, 16> scalar{};  // see BasicDirectCall
  const std::byte* scalar_on_device = nullptr;
};

using SmallCall = BasicSmallCall<kMaxRanks>;
using SmallPair = BasicSmallCall<2>;

// Messages that were posted together, one between any two ranks each way, all of which run at once.
// Few, since a launch copies its parameters.
inline constexpr int kMaxSmallPairs = 16;
template <int kCalls>
struct BasicSmallPairs {
  int blocks = 1;  // of the largest, and of what is run for each
  int warps = 1;
  int parts = 1;  // blocks of messages that a thread block runs at once
  std::array<SmallPair, kCalls> calls{};
};
using SmallPairs = BasicSmallPairs<kMaxSmallPairs>;

// The begin of SmallPairs, for kernels that run no more.
inline constexpr int kFewSmallPairs = 4;
using FewSmallPairs = BasicSmallPairs<kFewSmallPairs>;
static_assert(offsetof(FewSmallPairs, calls) == offsetof(SmallPairs, calls));

// The same call, if it is small; false if it is not. Messages have to be all small, no two of one
// chain, and to run at once in so many thread blocks.
bool make_small(const DirectCall& call, SmallCall& small);
bool make_small(const PairCalls& pairs, int block_limit, SmallPairs& small);

// Thread blocks of these messages, of which there are `calls`.
int thread_blocks(const SmallPairs& small, int calls);

}  // namespace sennit::sm
