// DirectCall: the whole of one call of the direct family, as the kernel's parameter.
//
// A direct schedule has at most two hops and, from one rank to another, at most one message a hop:
// one-shot and two-shot all-reduce, direct all-gather, reduce-scatter, all-to-all, broadcast,
// reduce, gather, scatter, scatter-and-forward broadcast, and scatter-and-gather reduce. Phase 0
// sends blocks of the input; what a rank got in phase 0 (reduced, or the root's block alone) goes
// to its output, if it has one, and, in phase 1, to other ranks.
#pragma once

#include "memory/fifo.hpp"
#include "memory/message_put.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace sennit::sm {

// Bytes [begin, begin + length) of the input or output buffer.
struct ByteRange {
  std::int64_t begin = 0;
  std::int64_t length = 0;
};

enum class Arrival : std::uint8_t {
  kStore,   // what comes from each source is stored in the output
  kReduce,  // what comes from all sources and the own input is reduced, in the order of ranks
};

// Of up to kRanks ranks.
template <int kRanks>
struct BasicDirectCall {
  // One rank sends and the other receives; nothing is passed on, reduced or a rank's own.
  static constexpr bool kIsPair = kRanks == 2;

  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  BlockState* states = nullptr;
  ErrorWord* error_word = nullptr;
  std::array<std::byte*, kRanks> fifos{};  // of each rank, as this device sees it

  using Ranges = std::array<ByteRange, kRanks>;
  Ranges push{};                   // phase 0: of the input, to each rank
  std::array<Ranges, 2> arrive{};  // by phase: from each rank, where it is stored
  ByteRange own_from{};  // of the input: copied to own_to, or the own operand of the reduction
  ByteRange own_to{};    // of the output; where ranges of phase 0 are passed on, that range

  std::uint32_t push_to = 0;                   // ranks, as bits
  std::array<std::uint32_t, 2> arrive_from{};  // by phase
  std::uint32_t forward_to = 0;                // phase 1: what arrived goes there
  Arrival arrival = Arrival::kStore;
  bool own = false;           // own_from takes part
  bool same_for_all = false;  // phase 0 sends one range to all other ranks
  bool own_is_sent = false;   // and that range is own_from as well
  // Every block exchanges a packet with every other rank in every round: nothing else need be told.
  bool all_heard = false;

  std::int8_t rank = 0;
  std::int8_t ranks = 1;
  std::int8_t peer = 0;  // of a pair: the rank at the other end, which a wait is said to be for
  // Every rank sends one range to all others in phase 0, or nothing: in memory of the host packets
  // of it are written once where they are plain or of small calls. Plain ones of phase 1 always
  // are.
  bool pushes_once = false;
  bool on_host = false;    // FIFOs lie there: each look at a word is a read over PCIe
  bool stores_sum = true;  // in own_to; else it is passed on alone, and own_to is its length
  std::int32_t blocks = 1;
  std::int32_t warps = 1;  // of a block; others that were launched stand by
  std::int32_t depth = 1;  // packets a warp in one round
  std::int32_t rounds = 1;
  std::uint32_t fingerprint = 0;
  std::uint64_t deadline_ns = 0;                   // of a wait; 0: none
  alignas(16) std::array<std::byte, 16> scalar{};  // factor of premul_sum
  const std::byte* scalar_on_device = nullptr;     // not null: where that factor is read instead
  Packets packets = Packets::kLl128;  // of the layout; a kernel of collectives is of one kind
  FifoLayout layout;
};

using DirectCall = BasicDirectCall<kMaxRanks>;

// A send or recv: a call of the two ranks 0 (sends) and 1, in a FIFO of their own.
using PairCall = BasicDirectCall<2>;

// One end of a message.
struct PairMessage {
  PairCall call;
  MessagePut put;

  [[nodiscard]] constexpr bool is_send() const { return call.rank == 0; }
  // A receiver that offers its buffer.
  [[nodiscard]] constexpr bool only_waits() const {
    return put.takes_part && !is_send() && put.there != nullptr;
  }
  // Packets come in call.blocks parts, as both ends know. A block of this end has each step()-th of
  // them, from its own index on, and that share of what is stored in place.
  [[nodiscard]] constexpr int step() const { return put.blocks; }
  // Of this end: those that have parts, or one that waits.
  [[nodiscard]] constexpr int blocks() const { return only_waits() ? 1 : step(); }
};

// Sends and recvs that were posted together run together, in chains of those that follow each other
// (exec/sm/group_order.hpp), the sends' first. Lanes of thread blocks run those of one way:
// lane l runs chains first + l, first + l + lanes, ...
struct PairLanes {
  std::int32_t lanes = 0;
  std::int32_t blocks = 1;  // of a lane: those of the largest message
  std::int32_t first = 0;
  std::int32_t chains = 0;

  [[nodiscard]] constexpr int all_blocks() const { return lanes * blocks; }
};

inline constexpr int kMaxPairCalls = 64;
// Sends that one lane may braid: a warp of each block awaits what is offered to one of them.
inline constexpr int kMaxBraided = kWarps;
template <int kCalls>
struct BasicPairCalls {
  PairLanes sends;
  PairLanes recvs;  // their thread blocks come first in a launch: senders wait for what they offer
  // The sends, of which each has a chain of its own and takes part in offers, have one lane, whose
  // blocks store a piece of each in turn. So receivers offer all their buffers before they wait.
  bool is_braid = false;
  std::array<std::int16_t, kMaxPairCalls + 1> begin{};  // of each chain; then their end
  std::array<PairMessage, kCalls> messages{};

  [[nodiscard]] constexpr int chains() const { return sends.chains + recvs.chains; }
  [[nodiscard]] constexpr int all_blocks() const { return sends.all_blocks() + recvs.all_blocks(); }
};
using PairCalls = BasicPairCalls<kMaxPairCalls>;

// The begin of PairCalls, for kernels that run no more: a kernel's parameters travel with each
// launch of it, and those of 64 calls cost more than a small message.
inline constexpr int kFewPairCalls = 8;
using FewPairCalls = BasicPairCalls<kFewPairCalls>;
static_assert(offsetof(FewPairCalls, messages) == offsetof(PairCalls, messages));

}  // namespace sennit::sm
