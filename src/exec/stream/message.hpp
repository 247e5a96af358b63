// Message: one end of a send or recv that copy engines run, or a part of one.
#pragma once

#include "exec/stream/byte_range.hpp"
#include "exec/stream/plan_program.hpp"
#include "exec/stream/stopwatch.hpp"
#include "path/host/rings.hpp"
#include "world/group_id.hpp"

#include <cstddef>
#include <cstdint>

namespace sennit::stream {

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
