// StreamProgram: what one rank does in a schedule, read off the schedule itself, for copy engines:
// blocks go straight from the memory of one rank into that of another. What is to be reduced goes
// into staging memory of the rank that reduces it.
//
//   SENNIT_ASSIGN_OR_RETURN(StreamProgram program,
//                           compile_stream(*strand.schedule, rank, strand.channels));
//   engine.run(program, call, stream);   // exec/stream/stream_engine.hpp
//
// The engine chooses which rank copies: of collectives the rank that has a block, which puts it
// where it belongs; of a message either end, as the two have decided. The order of lanes is not
// kept: a block leaves as soon as it lies there. So the loosened schedule is what is proved
// (schedule/passes.hpp). A block that leaves is written again in the same call only by what its
// reader sends after having it. This is checked here as well, because the proof speaks of tiles,
// and here all tiles leave at once.
//
// Among ranks that share a device some of the contributions to a reduction, and of its sums, go
// through the ring of their sender in host memory. And where the device runs the ranks in turn, who
// reduces copies the others (channels of direct_get), so that the device need not change to their
// senders.
//
// Blocks of an input leave, and sums of inputs. What arrives is not passed on: copies that wait for
// other copies lost to kernels (docs/performance.md).
#pragma once

#include "schedule/plan.hpp"

#include <optional>
#include <span>
#include <vector>

namespace sennit::stream {

// A block of this rank that goes to `reader`.
struct Departure {
  int reader = 0;
  int channel = 0;  // of those from this rank to the reader
  Block from;
  std::optional<Block> to{};  // of the reader; none: it is reduced there
  bool is_admitted = false;   // as of an Arrival
  bool through_host = false;
  bool is_pulled = false;  // a contribution that the reader copies out of the input
};

// A block of another rank that comes to this one.
struct Arrival {
  int sender = 0;
  int channel = 0;  // of those from the sender to this rank
  Block from;       // of the sender
  Block to;
  // A sum, to which this rank has contributed. So the sender knows that this rank has begun the
  // call, and this rank does not signal it.
  bool is_admitted = false;
  bool through_host = false;
};

// A contribution to a reduction: an input block, of another rank or of this one.
struct Operand {
  int sender = 0;
  int channel = 0;  // of those from the sender to this rank
  Block from;       // of the sender
  bool through_host = false;
  bool is_pulled = false;  // as of a Departure
};

// One reduction, of the contributions of all ranks, in the order in which they are combined.
struct Reduction {
  std::vector<Operand> operands;
  Block to;
  std::vector<Departure> passes_on{};  // the sum, to other ranks
};

struct OwnCopy {
  Block from;
  Block to;
};

// Departures, and the readers of a sum, are in the order of a ring, the next rank first: no two
// ranks begin with the same reader.
struct StreamProgram {
  Problem problem;
  int rank = 0;
  std::vector<Departure> departures;  // of the input
  std::vector<Arrival> arrivals;
  // At most one with contributions of other ranks.
  std::vector<Reduction> reductions;
  std::vector<OwnCopy> copies;
  // In place, too, no block is written before those who read it have it.
  bool may_be_in_place = false;
  bool uses_rings = false;  // something of some rank goes through the host

  // Whether other ranks send contributions here.
  [[nodiscard]] bool is_staged() const;
  // Whether other ranks read this rank's input.
  [[nodiscard]] bool has_input_read() const;
};

// `channels`: bindings of the schedule's channels; none: all of them go from memory to memory.
// kUnsupported, saying why, for schedules that streams cannot run as they stand.
Result<StreamProgram> compile_stream(const Schedule& schedule,
                                     int rank,
                                     std::span<const ChannelBinding> channels = {});

}  // namespace sennit::stream
