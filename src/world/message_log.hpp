// MessageLog: the last sends and recvs that one host rank has begun with one other, in shared
// memory, so that the two ends of a message can be compared. Message k of a rank to another is its
// k-th send there, and the k-th recv of the other from it.
#pragma once

#include "world/call_log.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sennit {

struct MessageLog {
  // A sender is ahead by as many small messages as a channel has slots, four by default.
  static constexpr std::size_t kKept = 32;
  // With more slots, it may have forgotten a message that its receiver has not taken.
  static constexpr std::uint32_t kMostSlots = kKept - 2;

  struct Way {
    CallLog<kKept> calls;
    std::atomic<std::uint64_t> ended{0};  // number of the last one that ended well
  };
  Way sent;      // to the other
  Way received;  // from it

  [[nodiscard]] const Way& way(bool is_send) const { return is_send ? sent : received; }
  [[nodiscard]] Way& way(bool is_send) { return is_send ? sent : received; }
};

// Which message a send or recv of rank `from` or `to` is.
struct PairMessage {
  int from = -1;
  int to = -1;
  std::uint64_t number = 0;  // from 1
};

}  // namespace sennit
