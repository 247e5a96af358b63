// Staging: what one rank writes for one other to read, when kernels run schedules step by step
// (exec/sm/step_call.hpp). It lies in memory of the reader, or in host memory where the two GPUs do
// not reach each other; no kernel needs to know. One header for host and device code.
//
//   staging buffer of (writer, reader):  words[block]  begun, full[channel], freed[channel]
//                                 slots[block]  of the channels from writer to reader
//
// Block b of the writer meets block b of the reader and no other. Of the words, `full` says how
// many messages have come on a channel from the writer to the reader, `freed` how many of those
// that went the other way the writer has consumed, and `begun` which call the writer runs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sennit::sm {

// From one rank to one other.
inline constexpr int kMostChannels = 15;
// Of a block: two lines of 128 bytes that no other block writes.
inline constexpr int kStagingWords = 32;
static_assert(1 + 2 * kMostChannels <= kStagingWords);

// Where the staging buffer of two ranks lies: in memory of the reader's GPU, or of the host.
enum class StagingPlace : std::uint8_t { kDevice, kHost };
inline constexpr int kStagingPlaces = 2;

enum class StagingWord : std::uint8_t { kBegun, kFull, kFreed };

// Among the words of a staging buffer.
constexpr std::size_t staging_word_at(StagingWord kind, int block, int channel = 0) {
  const int first = kind == StagingWord::kBegun  ? 0
                    : kind == StagingWord::kFull ? 1
                                                 : 1 + kMostChannels;
  return static_cast<std::size_t>(block) * kStagingWords + static_cast<std::size_t>(first) +
         static_cast<std::size_t>(channel);
}

// What `begun` holds in a block's call of this number, from 1.
constexpr std::uint64_t begun_word(std::uint64_t number, std::uint32_t fingerprint) {
  return (number << 32) | fingerprint;
}

// What `full` and `freed` hold after so many messages of a channel: they never fall, and a call
// begins beyond all that the one before has left.
inline constexpr int kCountBits = 24;
inline constexpr std::int64_t kMostMessages = (std::int64_t{1} << kCountBits) - 1;
constexpr std::uint64_t count_word(std::uint64_t number, std::int64_t messages) {
  return (number << kCountBits) + static_cast<std::uint64_t>(messages);
}

struct StagingShape {
  int blocks = 1;              // of a call, at most
  std::size_t slot_bytes = 0;  // of one block, for the slots of all channels together

  [[nodiscard]] constexpr std::size_t words_bytes() const {
    return static_cast<std::size_t>(blocks) * kStagingWords * sizeof(std::uint64_t);
  }
  [[nodiscard]] constexpr std::size_t bytes() const {
    return words_bytes() + static_cast<std::size_t>(blocks) * slot_bytes;
  }

  bool operator==(const StagingShape&) const = default;
};

}  // namespace sennit::sm
