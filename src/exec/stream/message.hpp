// Message: one end of a send or recv that copy engines run, or a part of one.
#pragma once

#include "exec/stream/byte_range.hpp"
#include "exec/stream/plan_program.hpp"
#include "exec/stream/stopwatch.hpp"
#include "exec/stream/words.hpp"
#include "path/host/rings.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace sennit::stream {

// What a rank tells others of one of its groups.
struct GroupId {
  // Sends from one rank to another count from 1; modulo 2^32: hosts are not so far apart.
  using Numbers = std::array<std::uint32_t, kMaxRanks>;

  std::uint64_t number = 0;    // on that rank
  std::uint32_t partners = 0;  // the ranks that it sends to, if they are those that it receives
                               // from, and itself, as bits; else 0
  // Of the first message to and from each partner.
  Numbers first_sent{};
  Numbers first_received{};
};

// Whether this group of `rank` and that of `other`, who are partners, have messages in common.
inline bool have_met(const GroupId& group, int rank, const GroupId& others, int other) {
  return group.first_sent[static_cast<std::size_t>(other)] ==
         others.first_received[static_cast<std::size_t>(rank)];
}

// How many messages of the two ranks, one way or the other, come in this group of `rank` before
// that of `other` begins.
inline int messages_before(const GroupId& group, int rank, const GroupId& others, int other) {
  const auto behind = [](std::uint32_t mine, std::uint32_t theirs) {
    return static_cast<std::int32_t>(theirs - mine);
  };
  const auto me = static_cast<std::size_t>(rank);
  const auto them = static_cast<std::size_t>(other);
  return std::max({0,
                   behind(group.first_sent[them], others.first_received[me]),
                   behind(group.first_received[them], others.first_sent[me])});
}

struct Message {
  // What this end does in a plan of send_recv. Straight from memory to memory blocks of the
  // sender's input go to the receiver's output, nothing else.
  const PlanProgram* program = nullptr;
  int peer = 0;
  int slot = 0;  // whose words it uses; not that of another message that is under way
  std::int64_t bytes = 0;
  // Whether the sender's copy engines put it where it belongs, instead of the receiver's that fetch
  // it; equal at both ends.
  bool is_put = false;
  // As this device sees them; the other end's and its group are for who moves it.
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  GroupId group{};
  int before = 0;  // messages_before() of this end's group and that one
  // For what goes through host memory: the ring from its sender to its receiver, as this device
  // sees it, and the slot of its first part. What one rank sends to another lies in one slot after
  // the other.
  std::byte* ring = nullptr;
  int first_slot = 0;
  // Its ends also meet in the words of a fetch, although kernels have what does not go through host
  // memory or the sender puts it, so that its receiver can time it; equal at both ends.
  bool is_met = false;
  // Of a receiver: times it, where no other message is moved, or met, with it.
  Stopwatch* watch = nullptr;

  [[nodiscard]] ByteRange range_of(const StrandProgram& strand, const Block& block) const;
};

// Slots that a message of so many bytes fills, one after the other.
std::int64_t slots_for(const PlanProgram& program, std::int64_t bytes, const host::RingShape& ring);

}  // namespace sennit::stream
