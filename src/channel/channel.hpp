// Channel words: how one writer and one reader agree about a ring of slots, with nothing but loads
// and stores. One header for every engine, host and device, so that what the sanitizers see on the
// host is what a GPU runs.
//
// Message g of a ring of R slots lies in slot g mod R. The writer may fill it once message g - R
// has been consumed, and then publishes the slot's full word; the reader waits for exactly that
// word, uses the slot, and returns it through the slot's free word.
//
//   writer:  while (!may_write(ring.free[g % R], g, R)) {}     acquire; partner: release_slot
//            ... fill the slot ...
//            publish(ring.full[g % R], full_word(g, fp))       release; partner: is_full
//   reader:  while (!is_full(ring.full[g % R], g, fp)) {}      acquire; partner: publish
//            ... use the slot ...
//            release_slot(ring.free[g % R], g)                 release; partner: may_write
//
// Words are per slot, so messages of one window may be consumed in any order (bursts). A full word
// holds the low 32 bits of g + 1 and the fingerprint of the call: ranks that make different calls
// never take each other's data. Waiting is for equality, so the wrap of 32 bits is harmless: the
// slot's previous content is message g - R, and R is far below 2^32.
#pragma once

#include "channel/word.hpp"

#include <cstdint>

namespace sennit::channel {

SENNIT_CHANNEL_FUNCTION constexpr std::uint64_t full_word(std::uint64_t message,
                                                          std::uint32_t fingerprint) {
  return ((message + 1) << 32) | fingerprint;
}

SENNIT_CHANNEL_FUNCTION constexpr std::uint32_t sequence_of(std::uint64_t word) {
  return static_cast<std::uint32_t>(word >> 32);
}

SENNIT_CHANNEL_FUNCTION constexpr std::uint32_t fingerprint_of(std::uint64_t word) {
  return static_cast<std::uint32_t>(word);
}

// The fingerprint of a channel whose blocks have a length that only its two ends know, such as
// those of all_to_all_v; taken block by block. Ends that disagree never take each other's messages.
SENNIT_CHANNEL_FUNCTION constexpr std::uint32_t with_length(std::uint32_t fingerprint,
                                                            std::uint64_t length) {
  // The finalizer of MurmurHash3: any change of any bit changes about half of the bits.
  std::uint64_t hash = length + 0x9e3779b97f4a7c15ULL + (std::uint64_t{fingerprint} << 32);
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccdULL;
  hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return static_cast<std::uint32_t>(hash ^ (hash >> 33));
}

// The slot of `message` may be filled: message - slots has been consumed, or there was none.
SENNIT_CHANNEL_FUNCTION inline bool may_write(const Word& free,
                                              std::uint64_t message,
                                              std::uint32_t slots) {
  return message < slots || load_acquire(free) == static_cast<std::uint32_t>(message - slots + 1);
}

SENNIT_CHANNEL_FUNCTION inline bool is_full(const Word& full,
                                            std::uint64_t message,
                                            std::uint32_t fingerprint) {
  return load_acquire(full) == full_word(message, fingerprint);
}

// The word says that `message` is there, but it belongs to another call than ours.
SENNIT_CHANNEL_FUNCTION inline bool is_foreign(const Word& full,
                                               std::uint64_t message,
                                               std::uint32_t fingerprint) {
  const std::uint64_t word = load_acquire(full);
  return sequence_of(word) == static_cast<std::uint32_t>(message + 1) &&
         fingerprint_of(word) != fingerprint;
}

SENNIT_CHANNEL_FUNCTION inline void publish(Word& full,
                                            std::uint64_t message,
                                            std::uint32_t fingerprint) {
  store_release(full, full_word(message, fingerprint));
}

SENNIT_CHANNEL_FUNCTION inline void release_slot(Word& free, std::uint64_t message) {
  store_release(free, static_cast<std::uint32_t>(message + 1));
}

// `message` has been consumed by its reader.
SENNIT_CHANNEL_FUNCTION inline bool is_released(const Word& free, std::uint64_t message) {
  return load_acquire(free) == static_cast<std::uint32_t>(message + 1);
}

}  // namespace sennit::channel
