// SlotProgram: what one rank does in a schedule that only moves data, read off the schedule
// itself, for copy engines and rings of slots in host memory: a sender copies a message into a slot
// of its ring, and all who read its channel copy it out of there.
//
//   SENNIT_ASSIGN_OR_RETURN(SlotProgram program, compile_slots(*strand.schedule, rank));
//
// Lanes are not kept. All messages of a sender go through its one ring, in the order in which its
// lanes name them, and every rank walks through all messages by their number, see
// exec/stream/slot_operations.hpp. That is right because messages hold nothing but inputs, and no
// block that is sent is written in the same call (checked here).
#pragma once

#include "schedule/schedule.hpp"

#include <vector>

namespace sennit::stream {

// A message of this rank; its number is its place in the list.
struct Put {
  Block from;
  std::vector<int> readers;
};

struct Take {
  int sender = 0;
  int message = 0;  // of the sender
  Block to;
};

struct BlockCopy {
  Block from;
  Block to;
};

struct SlotProgram {
  Problem problem;
  int rank = 0;
  int rounds = 0;             // messages of the rank that has most
  std::vector<int> messages;  // of each rank
  std::vector<Put> puts;      // by number
  std::vector<Take> takes;    // by number of the message
  std::vector<BlockCopy> own_copies;
  // No block that is sent is written in place either.
  bool may_be_in_place = false;
};

// kUnsupported, saying why, for schedules that cannot go through slots as they stand.
Result<SlotProgram> compile_slots(const Schedule& schedule, int rank);

}  // namespace sennit::stream
