// Words: how the streams of different ranks wait for each other. Each rank owns a set, in host
// memory that all processes share and all devices have mapped: the host can read who waits for whom
// and can end every wait, which no GPU would promise while its queues are full of waits.
//
// A word is full or free. Its one writer makes it full, its owner waits for that and makes it free
// again, both in stream order with constants, so that a graph may replay them. A writer makes it
// full again only when the owner has answered in between:
//   done[r][c]      rank r: the memory that channel c goes to is yours in this call
//   ready[s][c][p]  rank s: piece p of channel c lies there
// The sender frees `done` before it puts anything, so before it makes the reader's `ready` full,
// which the reader awaits before its next call; it frees `ready` before its next `done`. A message
// that was made of one from its reader (Arrival::is_admitted) needs no `done`: the reader sent that
// one in the same call.
//
// Sends and recvs have words of their own, by slot, since several messages may be under way between
// the same two ranks. Of one that is fetched the sender begins, of one that is put the receiver:
//   message_ready[s][m][c]     rank s: message m lies in my memory, take it
//   message_done[r][m][c]      rank r: I have taken it, the memory is yours again
//   message_admitted[r][m][c]  rank r: the memory that message m goes to is yours
//   message_arrived[s][m][c]   rank s: it lies there
// Who begins writes its word for the next message of that kind in a slot after it has heard of the
// end of this one. Of the other kind nothing would follow: so both have words. One that is put and
// timed uses all of them: it is a fetch of nothing as well.
//
// And for the slots of rings in host memory (path/host/rings.hpp), each as often in a
// call as the ring goes round:
//   filled[s][i]    rank s: slot i of my ring holds what you are to take
//   emptied[r][i]   rank r: I have taken what was in slot i of your ring
// What is one message of a whole ring is announced by `ready`, and its end by the first `emptied`.
// Messages go through rings of their own, one for each pair: message_filled, message_emptied.
#pragma once

#include "path/host/rings.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sennit::stream {

inline constexpr int kMaxRanks = 16;
inline constexpr int kMaxChannels = 2;  // from one rank to another
// Of a contribution to a reduction: half of it and two quarters. All else comes in one piece.
inline constexpr int kMaxPieces = 3;
inline constexpr int kMaxMessages = 64;  // sends from one rank to another that are under way

inline constexpr std::uint64_t kFree = 0;
inline constexpr std::uint64_t kFull = 1;

// Where a rank is with its calls: kIdle, or kRunning with the ranks, as bits from kPeersAt on, that
// it exchanges messages with (none: a collective), and the call's deadline, in ms from kDeadlineAt
// on (0: none). A watcher adds kSeen: where it is still there later, no call has ended meanwhile.
inline constexpr std::uint64_t kIdle = 0;
inline constexpr std::uint64_t kRunning = 1;
inline constexpr std::uint64_t kSeen = 2;
inline constexpr int kPeersAt = 8;
inline constexpr int kDeadlineAt = 32;
static_assert(kPeersAt + kMaxRanks <= kDeadlineAt);

constexpr std::uint64_t running_word(std::uint64_t peers, std::uint32_t deadline_ms) {
  return kRunning | peers << kPeersAt | std::uint64_t{deadline_ms} << kDeadlineAt;
}

struct alignas(4096) RankWords {
  using Channels = std::array<std::uint64_t, kMaxChannels>;
  using Pieces = std::array<std::uint64_t, kMaxPieces>;
  using RingWords = std::array<std::array<std::uint64_t, host::kMaxSlots>, kMaxRanks>;

  std::array<std::array<Pieces, kMaxChannels>, kMaxRanks> ready{};  // by sender
  std::array<Channels, kMaxRanks> done{};                           // by reader
  RingWords filled{};                                               // by sender
  RingWords emptied{};                                              // by reader
  std::uint64_t running = kIdle;
  std::uint64_t ended = 0;  // number of the last call that has, but of those in graphs

  // By peer, slot and channel.
  using Slots = std::array<Channels, kMaxMessages>;
  using Messages = std::array<Slots, kMaxRanks>;

  Messages message_ready{};     // by sender
  Messages message_done{};      // by reader
  Messages message_admitted{};  // by reader
  Messages message_arrived{};   // by sender

  RingWords message_filled{};   // by sender
  RingWords message_emptied{};  // by reader

  // Ends every wait of the owner, those that have begun and those that begin later: for calls that
  // cannot end otherwise. What is read behind them is undefined, and what is put goes where its
  // reader may have something else.
  void release_all() {
    release_puts();
    release_others();
  }
  void release_puts() {
    release(ready);
    release(done);
    release(message_admitted);
  }
  void release_others() {
    release(filled);
    release(emptied);
    release(message_ready);
    release(message_done);
    release(message_arrived);
    release(message_filled);
    release(message_emptied);
  }

 private:
  static void release(std::uint64_t& word) {
    std::atomic_ref(word).store(kFull, std::memory_order_release);
  }
  template <typename T, std::size_t kSize>
  static void release(std::array<T, kSize>& words) {
    for (T& part : words) {
      release(part);
    }
  }
};

}  // namespace sennit::stream
