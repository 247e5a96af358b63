// SlotOperations: what one rank's streams do for a strand through slots in host memory.
//
// A block is cut into parts that fit into a slot. In each part every rank sends its messages 0, 1,
// ... of the program; a round is one of those numbers in one part, on all ranks. The n-th message
// of a rank in a call lies in slot n mod S of its ring. At the end of a call all slots are empty
// and all their flags free, so that a graph may replay it.
//
// In a round a rank puts its message first, and then takes those that others put in this round, and
// reports that behind the last copy. So a put of round t waits for what was issued before round t:
// the message that was in its slot is S >= 2 of the sender's messages older, of round t - S or
// before. A take waits for puts of its own round. call_queues_test.cpp proves it with the queue
// check.
//
// A graph forgets the order of issue, so events keep as much of it as is needed (round_order.hpp).
//
// Puts are one line of copies, and takes another, each of which waits in one stream: two that wait
// for one flag at once could take each other's message.
#pragma once

#include "exec/stream/direct_operations.hpp"
#include "exec/stream/operation_line.hpp"
#include "exec/stream/round_order.hpp"
#include "exec/stream/slot_parts.hpp"
#include "exec/stream/slot_program.hpp"
#include "exec/stream/stream_call.hpp"
#include "path/host/rings.hpp"

#include <cstdint>
#include <span>

namespace sennit::stream {

class SlotOperations {
 public:
  static constexpr int kStreams = 2 * OperationLine::kMostStreams;
  // RoundOrder::kEvents of them.
  static constexpr int kFirstEvent = DirectOperations::kEndOfEvents;

  // All of these outlive the result. The streams are kStreams from `first_stream` on.
  SlotOperations(OperationWriter& writer,
                 const SlotProgram& program,
                 const Portion& portion,
                 const StreamCall& call,
                 const host::RingShape& ring,
                 int first_stream);

  // Between fork and join.
  void move();
  // Behind all that was moved, on the user's stream.
  void settle();

 private:
  using Takes = std::span<const Take>;

  struct Round {
    std::int64_t part = 0;
    int message = 0;
    std::int64_t number = 0;
  };

  void put(const Round& round);
  void take(const Round& round, Takes takes);
  void copy_own(const BlockCopy& copy);
  // Waits until all have read the n-th message of this rank.
  void await_readers(int stream, std::int64_t n);
  [[nodiscard]] ByteRange part_of(const Block& block, std::int64_t part) const;
  [[nodiscard]] Takes takes_of(int message) const;
  // In which slot of its sender's ring the message lies, and where that is.
  [[nodiscard]] int slot_of(int sender, std::int64_t part, int message) const;
  [[nodiscard]] Place place_of(int sender, int slot) const;
  [[nodiscard]] Place own_place(Memory memory, std::int64_t at) const {
    return {.memory = memory, .index = program_.rank, .at = at};
  }

  OperationWriter& writer_;
  const SlotProgram& program_;
  Portion portion_;
  const StreamCall& call_;
  host::RingShape ring_;
  SlotParts parts_;
  OperationLine puts_;
  OperationLine takes_;
  RoundOrder order_;
};

}  // namespace sennit::stream
