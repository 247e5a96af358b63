// Words: how the streams of different ranks wait for each other. Each rank owns a set, in host
// memory that all processes share and all devices have mapped: the host can read who waits for whom
// and can end every wait, which no GPU would promise while its queues are full of waits.
//
// A word is full or free. Its one writer makes it full, its owner waits for that and makes it free
// again, both in stream order with constants, so that a graph may replay them. A writer makes it
// full again only when it has heard from the owner in between:
//   ready[s][c][p]  rank s: part p of channel c of this call lies in my memory, take it
//   done[r][c][p]   rank r: I have taken it, the memory is yours again
// The owner frees `ready` before it takes the part, so before it makes the sender's `done` full,
// which the sender awaits before its next call; it frees `done` before its next `ready`.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sennit::stream {

inline constexpr int kMaxRanks = 16;
inline constexpr int kMaxChannels = 2;  // from one rank to another
inline constexpr int kMaxParts = 16;    // of a message

inline constexpr std::uint64_t kFree = 0;
inline constexpr std::uint64_t kFull = 1;

// Where a rank is with its calls. A watcher that finds kRunning makes it kSeen: still kSeen later,
// and no call has ended meanwhile.
inline constexpr std::uint64_t kIdle = 0;
inline constexpr std::uint64_t kRunning = 1;
inline constexpr std::uint64_t kSeen = 2;

struct alignas(4096) RankWords {
  using Parts = std::array<std::uint64_t, kMaxParts>;
  using Peers = std::array<std::array<Parts, kMaxChannels>, kMaxRanks>;

  Peers ready{};  // by sender
  Peers done{};   // by reader
  std::uint64_t running = kIdle;

  // Ends every wait of the owner, those that have begun and those that begin later: for calls that
  // cannot end otherwise. What they read meanwhile is undefined.
  void release_all() {
    for (Peers* const words : {&ready, &done}) {
      for (auto& channels : *words) {
        for (Parts& parts : channels) {
          for (std::uint64_t& word : parts) {
            std::atomic_ref(word).store(kFull, std::memory_order_release);
          }
        }
      }
    }
  }
};

}  // namespace sennit::stream
