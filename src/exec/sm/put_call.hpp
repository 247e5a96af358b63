// PutCall: the whole of one call whose ranks store blocks in each other's outputs where they belong
// (direct_put), as the kernel's parameter. Nothing passes through arenas but words:
//
//   ready[source][block]   block `block` of rank `source` has begun: its buffers may be used
//   passed[source][block]  how much of what it puts has arrived, for those that pass it on
//   done[source][block]    it has finished with this rank's buffers
//
// All ranks await `ready` and `done` of all others, so one word of each kind is enough: nobody is
// told of a call before he has finished the one before. Words carry the number of the call, which a
// block counts itself, so that graphs may replay it.
#pragma once

#include "exec/sm/arena.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace sennit::sm {

// From memory of this rank into an output.
struct Transfer {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::int64_t bytes = 0;  // 0: nothing
};

struct PutCall {
  std::array<Transfer, kMaxRanks> puts{};  // of the input, by rank; the own one may be longer

  // What arrives from `passed_by` goes on to others.
  const std::byte* arrived = nullptr;
  std::int64_t arrived_bytes = 0;
  std::array<std::byte*, kMaxRanks> pass_to{};  // by rank, of those in `passes_to`
  std::uint32_t passes_to = 0;                  // ranks, as bits

  std::uint32_t passed_on_by = 0;  // ranks that pass on what this one puts
  std::int64_t passed_chunks = 0;  // of the longest put to another rank
  std::int8_t passed_by = -1;      // rank; -1: nothing is passed on
  bool same_for_all = false;       // all puts are of one range

  std::int8_t rank = 0;
  std::int8_t ranks = 1;
  std::int32_t blocks = 1;
  std::int64_t chunks = 1;  // of the longest range
  std::uint32_t fingerprint = 0;
  std::uint64_t deadline_ns = 0;  // of a wait; 0: none

  std::uint64_t* calls = nullptr;  // by block: finished so far, or kGivenUp
  Board* board = nullptr;
  std::array<std::uint64_t*, kMaxRanks> words{};  // of each rank, as this device sees them
  std::uint32_t source_words = 0;                 // of one source
};

enum class PutWord : std::uint8_t { kReady, kPassed, kDone };
inline constexpr int kPutWordKinds = 3;

// Where the word of block `block` of rank `source` stands among those of one owner.
constexpr std::uint32_t put_word_at(const PutCall& call, PutWord kind, int source, int block) {
  return (static_cast<std::uint32_t>(kind) * static_cast<std::uint32_t>(call.ranks) +
          static_cast<std::uint32_t>(source)) *
             call.source_words +
         static_cast<std::uint32_t>(block);
}

// What `ready` and `done` hold in a block's call of this number, from 1: not what they held in the
// call before, nor in one that differs.
constexpr std::uint64_t meeting_word(const PutCall& call, std::uint64_t number) {
  return (number << 32) | call.fingerprint;
}
// What `passed` holds after so many chunks of the block: it never falls.
constexpr std::uint64_t progress_word(std::uint64_t number, std::int64_t chunks) {
  return (number << 28) | static_cast<std::uint64_t>(chunks);
}

// Words that a rank owns, for kernels of up to `blocks` blocks; zero at first.
constexpr std::size_t put_words(int ranks, int blocks) {
  return static_cast<std::size_t>(kPutWordKinds) * static_cast<std::size_t>(ranks) *
         static_cast<std::size_t>(blocks);
}

// What a block moves before it looks whether it may go on.
inline constexpr int kPutUnits = 2;  // of a thread
inline constexpr std::int64_t kChunkUnits = std::int64_t{kThreads} * kPutUnits;
inline constexpr std::int64_t kChunkBytes = kChunkUnits * 16;

// Units of a range lie on multiples of 16 bytes of memory, so its first and its last may be parts.
// `shift`: of the range's begin behind such a multiple.
struct UnitPart {
  std::int64_t at = 0;      // from the begin of the range
  std::int64_t length = 0;  // not positive: there is none
};

constexpr UnitPart unit_part(std::int64_t index, int shift, std::int64_t bytes) {
  const std::int64_t unit = index * 16 - shift;
  const std::int64_t begin = std::max<std::int64_t>(unit, 0);
  return {begin, std::min(unit + 16, bytes) - begin};
}

constexpr std::int64_t chunks_of(int shift, std::int64_t bytes) {
  return bytes <= 0 ? 0 : (bytes + shift + kChunkBytes - 1) / kChunkBytes;
}

}  // namespace sennit::sm
