// Status lines: what every rank says of itself in shared memory, for the others to read when they
// have waited a while. A line is written by its owner alone, with plain release stores, before the
// first transfer of each call; nothing is ever read back by its owner.
//
// The words of the last four calls lie in different places. Those of call k are overwritten between
// the announcements of calls k + 3 and k + 4, and every store is a release: a reader who afterwards
// still sees at most k + 2 announced has read the words of call k.
#pragma once

#include "channel/doorbell.hpp"
#include "types/types.hpp"

#include <array>
#include <atomic>
#include <cstdint>

namespace sennit {

enum class RankState : std::uint32_t {
  kJoining,    // zero: the segment begins so
  kActive,     // in its own code, or in call `entered` while left < entered
  kFailed,     // gave up; failure_code and blamed say why
  kAborted,    // its user called abort
  kFinalized,  // makes no more calls
};

// How far a rank is with finding out whether it can read the others' memory.
enum class ProbeState : std::uint32_t { kNone, kOffered, kFailed, kWorks };

// What ranks must agree on in one call.
struct CallWords {
  std::uint32_t collective = 0;
  std::uint32_t dtype = 0;
  std::uint32_t op = 0;
  std::int32_t root = 0;
  std::uint64_t count = 0;
  std::uint64_t plan_hash = 0;
  std::uint32_t codec = 0;  // by its number; 0: none
  std::int32_t tag = 0;     // of a send or recv
  std::uint32_t row = 0;    // elements of a row that is normalised; 0: none. At most 24 bits
  bool varying = false;  // lengths differ by block; `count` is 0 then (see world/pair_counts.hpp)

  // In place of a plan's hash: the rank has refused the call, which others may have begun.
  static constexpr std::uint64_t kRefused = ~std::uint64_t{0};

  bool operator==(const CallWords&) const = default;
};

inline constexpr std::uint32_t kReportedDead = 1;
inline constexpr std::uint32_t kReportedLost = 2;  // with its node
inline constexpr std::uint32_t kReportedStopped = 4;

struct alignas(128) StatusLine {
  struct Words {
    std::atomic<std::uint64_t> what{0};  // varying, codec, collective, dtype, row, op
    std::atomic<std::int64_t> place{0};  // tag, root
    std::atomic<std::uint64_t> count{0};
    std::atomic<std::uint64_t> plan_hash{0};

    // Stands in `place` while the words are replaced; no tag is negative.
    static constexpr std::int64_t kChanging = INT64_MIN;

    // Release stores and acquire loads, word by word; `place` is stored last and loaded first.
    void put(const CallWords& words);
    [[nodiscard]] CallWords get() const;
  };

  std::atomic<std::uint64_t> entered{0};  // number of the last call begun, from 1
  std::atomic<std::uint64_t> left{0};     // number of the last call that ended well
  std::array<Words, 4> calls;             // call k in calls[k mod 4]
  std::atomic<RankState> state{RankState::kJoining};
  std::atomic<std::uint32_t> failure_code{0};
  std::atomic<std::int32_t> blamed{-1};
  std::atomic<std::int32_t> waits_for{-1};  // rank, while it has waited long
  std::atomic<std::uint64_t> long_wait{0};  // see world/deadlock.hpp
  std::atomic<std::uint32_t> beats{0};      // looks at the others, with an attempt to move before
  std::atomic<std::uint64_t> moves{0};      // rounds in which data moved, as of the last look
  std::atomic<std::uint64_t> probe_address{0};
  std::atomic<ProbeState> probe{ProbeState::kNone};
  // Of a rank of another node, whose line here is a copy: what its node or rank 0 has found of its
  // process. Zero: nothing.
  std::atomic<std::uint32_t> reported{0};

  void enter(std::uint64_t call, const CallWords& words);
  void leave(std::uint64_t call) { left.store(call, std::memory_order_release); }
  void fail(Code code, int blamed_rank);

  // True, and the words, when this rank's last call is `call` or one of the two after it.
  bool read(std::uint64_t call, CallWords& words) const;
};

// The front of the shared segment; the rings of path shm follow it.
struct alignas(128) ControlHeader {
  // Counts failures and aborts: who waits compares it each round and looks at the lines at once.
  std::atomic<std::uint32_t> alarms{0};
  // Several nodes: counts how often ranks of this node have asked for the lines of others.
  std::atomic<std::uint32_t> asks{0};
};

}  // namespace sennit
