// The operations of a group of sends and recvs that copy engines run, on one rank: a pure function
// of its messages, as both ends of each have decided them.
//
// Whatever other ranks are to move is offered before the rank waits for anything, and the end of
// that is waited for last. What it moves itself, out of or into the memory of several ranks, moves
// in streams of their own, since none may hold up another: those may be in quite different groups.
// So messages wait for each other only as their groups do.
//
// Copies are fast only if they follow one another without waits between them, so what one rank
// offers at once is waited for at once. Where all ranks of a set exchange messages with each other
// in one group (an all_to_all in sends and recvs), no group can end before all have begun: then all
// that a rank fetches is waited for at once, and fetched in the order of a ring, and so is what it
// puts.
//
// Where streams share a queue, what waits holds up what is behind it. So what the first group of a
// peer needs is issued before what waits for its second one, straight or through slots.
//
// Where a message has a stopwatch, its receiver says when both ends had begun and when each strand
// ended. What kernels carry has no flags of its own, and those of what is put do not say when its
// sender began: such a message is `is_met`, so its ends also meet by a fetch of nothing, which
// holds up nothing but the end of both groups.
#pragma once

#include "exec/stream/lane_operations.hpp"
#include "exec/stream/message.hpp"
#include "exec/stream/operation_list.hpp"
#include "path/host/rings.hpp"

#include <cstdint>
#include <span>

namespace sennit::stream {

struct MessageGroup {
  int rank = 0;
  int ranks = 1;
  std::span<const Message> messages{};
  std::uint32_t partners = 0;  // as in GroupId, of this rank
  bool has_kernels = false;    // LaunchKernels: some messages, or parts, are theirs
  bool is_captured = false;    // as of a StreamCall
  host::RingShape ring{};      // of each pair
  std::uint64_t number = 0;    // this and the next as of a StreamCall
  std::uint32_t deadline_ms = 0;
};

// Streams, with the user's, of such groups: without and with strands through slots.
constexpr int message_streams(int ranks) { return 1 + 2 * (ranks - 1); }
inline int message_streams_with_slots(int ranks) {
  return message_streams(ranks) + LaneOperations::streams_for(ranks);
}

// Appends the group. Places name messages by their index.
void append_group(const MessageGroup& group, OperationList& list);

}  // namespace sennit::stream
