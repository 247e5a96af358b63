// Fifo: the device memory that each rank owns and all others write into, and the words by which
// thread blocks of different ranks agree about it. One header for host and device code.
//
// All data travels in packets of 1024 bytes (exec/sm/packet.cuh): a warp writes a packet, a warp of
// the reader waits until it has come. Packets of Ll and Ll128 carry their own flags; what a warp
// sends a rank as packets of Slots in one round has a separate flag. Plain packets are for
// FIFOs in host memory: when a block of threads has written all that it has for a reader in this
// round, it stores the flag of the round into a word of the reader's. Every block of a kernel has
// its own part of the FIFO and its own round number, so that no block ever waits for another of
// its own rank.
//
//   FIFO of a rank:  ll     [2 generations][phase][source][block][slot]   packets
//                     ll128  [2 generations][phase][source][block][slot]   packets
//                     slots  [2 generations][phase][source][block][slot]   packets
//                     plain  [2 generations][phase][source][block][slot]   packets
//                     words  [2 generations][phase][block][source]         of plain packets
//                     flags  [2 generations][phase][source][block][warp]   words, of slots
//                     started[block][source]                               words, a line a block
//
// Round k of a block uses generation k mod 2. A packet of round k may be written once its reader
// has finished round k - 2. A packet that came from that reader in round k - 1 says so, since a
// block begins a round only after it has finished the one before; where none came, the reader's
// `started` word says it (docs/decisions/0014-rounds-and-packets.md).
//
// Plain packets that go to all others, and those of small calls through memory of the host,
// are written once, where their writer would be the source in its own FIFO, and read there
// (docs/decisions/0027-plain-packets.md).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace sennit::sm {

inline constexpr int kMaxRanks = 16;
inline constexpr int kWarps = 16;  // of a block
inline constexpr int kThreads = kWarps * 32;
inline constexpr int kGenerations = 2;
inline constexpr std::size_t kPacketBytes = 1024;

// The protocols of packets. The areas are separate: data of one could look like a flag of the
// other.
enum class Packets : std::uint8_t { kLl, kLl128, kSlots, kPlain };

// Bytes of data in a packet.
constexpr std::int64_t payload_bytes(Packets packets) {
  switch (packets) {
    case Packets::kLl:
      return 512;
    case Packets::kLl128:
      return 960;
    case Packets::kSlots:
    case Packets::kPlain:
      break;
  }
  return kPacketBytes;
}

// The words of one block, of all sources, are a line: who waits for several reads them at once.
inline constexpr std::size_t kWordLineBytes = kMaxRanks * sizeof(std::uint64_t);
inline constexpr int kWordsOfLine = kMaxRanks;

// What Ll128 has in its lines, and the others in their words: 44 bits of the round and 20 of the
// fingerprint.
constexpr std::uint64_t round_flag(std::uint64_t round, std::uint32_t fingerprint) {
  return (round << 20) | (fingerprint & 0xfffffU);
}

// What stands next to the even and the odd words of an Ll packet. Both differ from what the round
// before the last left in the same slot, of whatever call, so that each 8 bytes say for themselves
// whether they have come: bit 1 of a round is not that of the one two before. Together they do not
// come back before 2^62 rounds.
struct LlFlags {
  std::uint32_t even = 0;
  std::uint32_t odd = 0;
};
constexpr LlFlags ll_flags(std::uint64_t round, std::uint32_t fingerprint) {
  constexpr std::uint32_t kTurns = 2;
  const auto low = static_cast<std::uint32_t>(round);
  const std::uint32_t mixed = fingerprint ^ (static_cast<std::uint32_t>(round >> 32) << 2) ^ low;
  return {low, (mixed & ~kTurns) | (low & kTurns)};
}

// Where things lie in a FIFO, for the packets of one protocol, in bytes: so that a kernel adds
// where it would have to multiply.
struct FifoLayout {
  std::uint32_t area = 0;  // from the begin of the FIFO
  std::uint32_t generation = 0;
  std::uint32_t phase = 0;
  std::uint32_t source = 0;
  std::uint32_t block = 0;
  std::uint32_t step = 0;
  std::uint32_t started = 0;  // from the begin of the FIFO
  std::uint32_t flags = 0;    // from the begin of the FIFO
  std::uint32_t flags_generation = 0;
  std::uint32_t flags_phase = 0;
  std::uint32_t flags_source = 0;
  // Of plain packets.
  std::uint32_t words = 0;  // from the begin of the FIFO
  std::uint32_t words_generation = 0;
  std::uint32_t words_phase = 0;
};

// What a block may have in one round, in packets of each of its warps, and the blocks of a kernel.
struct FifoShape {
  int ranks = 1;
  bool one_way = false;  // rank 0 alone sends packets
  int phases = 2;
  int ll_blocks = 32;
  int ll_depth = 1;
  int wide_blocks = 128;  // of Ll128 and Slots
  int ll128_depth = 2;
  int slots_depth = 2;
  int plain_blocks = 0;

  [[nodiscard]] constexpr int sources() const { return one_way ? 1 : ranks; }
  [[nodiscard]] constexpr int blocks(Packets packets) const {
    return packets == Packets::kLl      ? ll_blocks
           : packets == Packets::kPlain ? plain_blocks
                                        : wide_blocks;
  }
  [[nodiscard]] constexpr int depth(Packets packets) const {
    return packets == Packets::kLl      ? ll_depth
           : packets == Packets::kLl128 ? ll128_depth
           : packets == Packets::kSlots ? slots_depth
                                        : 1;
  }
  [[nodiscard]] constexpr std::size_t area_packets(Packets packets) const {
    return static_cast<std::size_t>(kGenerations) * static_cast<std::size_t>(phases) *
           static_cast<std::size_t>(sources()) * static_cast<std::size_t>(blocks(packets)) *
           kWarps * static_cast<std::size_t>(depth(packets));
  }
  [[nodiscard]] constexpr std::size_t area_offset(Packets packets) const {
    std::size_t before = 0;
    for (const Packets other : {Packets::kLl, Packets::kLl128, Packets::kSlots}) {
      before += other < packets ? area_packets(other) : 0;
    }
    return before * kPacketBytes;
  }
  [[nodiscard]] constexpr int most_blocks() const {
    return std::max({ll_blocks, wide_blocks, plain_blocks});
  }
  [[nodiscard]] constexpr std::size_t words_offset() const {
    return area_offset(Packets::kPlain) + area_packets(Packets::kPlain) * kPacketBytes;
  }
  [[nodiscard]] constexpr std::size_t words_bytes() const {
    return static_cast<std::size_t>(kGenerations) * static_cast<std::size_t>(phases) *
           static_cast<std::size_t>(plain_blocks) * kWordLineBytes;
  }
  [[nodiscard]] constexpr std::size_t flags_offset() const {
    return words_offset() + words_bytes();
  }
  // The flags of one source in one phase of a generation.
  [[nodiscard]] constexpr std::size_t source_flags_bytes() const {
    return static_cast<std::size_t>(wide_blocks) * kWarps * sizeof(std::uint64_t);
  }
  // Last of all: what follows is for the words that signal in the other direction, of a pair.
  [[nodiscard]] constexpr std::size_t started_offset() const {
    return flags_offset() + static_cast<std::size_t>(kGenerations) *
                                static_cast<std::size_t>(phases) *
                                static_cast<std::size_t>(sources()) * source_flags_bytes();
  }
  [[nodiscard]] constexpr std::size_t started_bytes() const {
    return static_cast<std::size_t>(most_blocks()) * kWordLineBytes;
  }
  [[nodiscard]] constexpr std::size_t bytes() const { return started_offset() + started_bytes(); }

  [[nodiscard]] constexpr FifoLayout layout(Packets packets) const {
    FifoLayout at;
    at.area = static_cast<std::uint32_t>(area_offset(packets));
    at.step = kWarps * kPacketBytes;
    at.block = at.step * static_cast<std::uint32_t>(depth(packets));
    at.source = at.block * static_cast<std::uint32_t>(blocks(packets));
    at.phase = at.source * static_cast<std::uint32_t>(sources());
    at.generation = at.phase * static_cast<std::uint32_t>(phases);
    at.started = static_cast<std::uint32_t>(started_offset());
    at.flags = static_cast<std::uint32_t>(flags_offset());
    at.flags_source = static_cast<std::uint32_t>(source_flags_bytes());
    at.flags_phase = at.flags_source * static_cast<std::uint32_t>(sources());
    at.flags_generation = at.flags_phase * static_cast<std::uint32_t>(phases);
    at.words = static_cast<std::uint32_t>(words_offset());
    at.words_phase = static_cast<std::uint32_t>(plain_blocks) * kWordLineBytes;
    at.words_generation = at.words_phase * static_cast<std::uint32_t>(phases);
    return at;
  }

  bool operator==(const FifoShape&) const = default;
};

// In place of a number, of rounds or calls: of a block that had to leave one before its end. What
// it would send next could pass for what it has not sent.
inline constexpr std::uint64_t kGivenUp = ~std::uint64_t{0};

// What a block remembers between kernels; in device memory of its own rank, never seen by others.
struct BlockState {
  std::uint64_t round = 0;    // finished; kGivenUp: it runs no more
  std::uint32_t unheard = 0;  // ranks from which no packet came in that round
  std::uint32_t reserved = 0;
};

// Why a kernel left early. In pinned host memory, written by the first warps that give up.
enum class Trouble : std::uint32_t { kNone, kAborted, kDeadline };

// Waiting kernels leave. Those that leave because a warp's deadline has passed do not say that they
// were aborted: that would take the place of the cause.
inline constexpr std::uint32_t kAbortedByHost = 1;
inline constexpr std::uint32_t kAbortedByKernel = 2;

struct ErrorWord {
  std::uint32_t abort = 0;  // else one of these; the host leaves what a kernel has written
  Trouble trouble = Trouble::kNone;
  std::uint32_t peer = 0;  // that was waited for
  std::uint32_t block = 0;
  std::uint64_t round = 0;
};

}  // namespace sennit::sm
