// MessagePut: how the two ends of a message agree, in a kernel of each, whether the sender stores
// it straight in the receiver's buffer or sends packets. No host waits for anything. The receiver
// decides, since it knows whether its sender reaches the buffer:
//
//   address[block]  two words that the receiver writes: where the sender sees the buffer, or null
//                   for packets
//   done[block]     a word that the sender writes: block `block` has stored its part, or sent it
//
// The receiver awaits `done` of every block, whichever way the message took. So every address
// has been read when the next one is written, and one of each kind is enough. Blocks count the
// messages that they took part in, so that graphs may replay them.
//
// What is stored in place wants fewer blocks than packets. So a sender alone may launch fewer. Each
// then stands for several: it reads the address of its own index, which is that of them all, and
// writes `done` for all. An address that was not read is never taken for the next one, since the
// number in it is another.
// docs/decisions/0029-offered-puts.md and 0048-stores-by-threads.md say why.
#pragma once

#include "memory/fifo.hpp"

#include <cstddef>
#include <cstdint>

namespace sennit::sm {

struct MessagePut {
  bool takes_part = false;             // as both ends know; else packets carry the message
  std::byte* there = nullptr;          // of a receiver: the buffer
  std::uint64_t* addresses = nullptr;  // of the sender, as this device sees them
  std::uint64_t* done = nullptr;       // of the receiver
  std::uint64_t* messages = nullptr;   // by block: finished by this end, or kGivenUp
  std::int32_t most_blocks = 0;        // that a message between these two may have
  std::int32_t blocks = 1;  // of this end: fewer, where a sender gives each several parts
};

inline constexpr int kAddressWords = 2;

// Words that a rank has for what it exchanges with one other: addresses that it gets, `done` that
// it gets, and what it has counted as sender and as receiver.
struct MessageWords {
  std::size_t blocks = 0;

  [[nodiscard]] constexpr std::size_t addresses() const { return 0; }
  [[nodiscard]] constexpr std::size_t done() const { return kAddressWords * blocks; }
  [[nodiscard]] constexpr std::size_t sent() const { return done() + blocks; }
  [[nodiscard]] constexpr std::size_t received() const { return sent() + blocks; }
  [[nodiscard]] constexpr std::size_t all() const { return received() + blocks; }
};

// An address needs no fence between its two words: like those of an Ll packet, each says for itself
// that it has come. ll_flags tells a number from the one two before, and an address is followed by
// the next one.
constexpr LlFlags address_flags(std::uint64_t number, std::uint32_t fingerprint) {
  return ll_flags(2 * number, fingerprint);
}
constexpr std::uint64_t address_word(std::uint64_t address, int index, LlFlags flags) {
  return index == 0 ? (address << 32) | flags.even : ((address >> 32) << 32) | flags.odd;
}
// Whether the word has come, and the address whose halves both have brought.
constexpr bool is_address(std::uint64_t word, int index, LlFlags flags) {
  return static_cast<std::uint32_t>(word) == (index == 0 ? flags.even : flags.odd);
}
constexpr std::uint64_t address_from(std::uint64_t first, std::uint64_t second) {
  return (first >> 32) | ((second >> 32) << 32);
}

constexpr std::uint64_t done_word(std::uint64_t number, std::uint32_t fingerprint) {
  return (number << 32) | fingerprint;
}

// A range as one block's share of it is moved: what lies before the first element, whole elements
// of T in slices of one for each thread, dealt to the blocks in turn, and what is left behind them.
template <class T>
struct Cut {
  std::int64_t head = 0;      // bytes
  std::int64_t elements = 0;  // whole ones
  std::int64_t tail = 0;      // bytes

  constexpr Cut(std::uintptr_t from, std::int64_t bytes) {
    constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
    const std::int64_t before = (kSize - static_cast<std::int64_t>(from % sizeof(T))) % kSize;
    head = before < bytes ? before : bytes;
    elements = (bytes - head) / kSize;
    tail = bytes - head - elements * kSize;
  }
  [[nodiscard]] constexpr std::int64_t tail_at() const {
    return head + elements * static_cast<std::int64_t>(sizeof(T));
  }
};

}  // namespace sennit::sm
