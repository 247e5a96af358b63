// StreamProgram: what one rank does in a schedule, read off the schedule itself, for copy engines:
// blocks go straight from the memory of one rank into that of another. What is to be reduced goes
// into staging memory of the rank that folds it.
//
//   SENNIT_ASSIGN_OR_RETURN(StreamProgram program, compile_stream(*strand.schedule, rank));
//   engine.run(program, call, stream);   // exec/stream/stream_engine.hpp
//
// Who copies is the engine's choice: of collectives the rank that has a block, which puts it where
// it belongs; of a message either end, as the two have decided. The order of lanes is not kept: a
// part leaves when it lies there. So what is proved is the loosened schedule (schedule/passes.hpp).
// A block that leaves is written again in the same call only by what its reader sends after having
// it, which is checked here, too, since the proof speaks of tiles and here all of them leave at
// once.
#pragma once

#include "schedule/schedule.hpp"

#include <optional>
#include <vector>

namespace sennit::stream {

inline constexpr int kMaxDepth = 2;

// A block of this rank that goes to `reader`.
struct Departure {
  int reader = 0;
  int channel = 0;  // of those from this rank to the reader
  Block from;
  std::optional<Block> to{};  // of the reader; none: it is folded there
  bool is_admitted = false;   // as of an Arrival
};

// A block of another rank that comes to this one.
struct Arrival {
  int sender = 0;
  int channel = 0;  // of those from the sender to this rank
  Block from;       // of the sender
  Block to;
  int depth = 0;  // hops before: 0 for blocks of the sender's input
  // The sender has made it of what came from this rank, which then has begun the call and need not
  // say so.
  bool is_admitted = false;
  std::vector<Departure> passes_on{};
};

// A contribution to a fold: an input block, of another rank or of this one.
struct Operand {
  int sender = 0;
  int channel = 0;  // of those from the sender to this rank
  Block from;       // of the sender
};

// One reduction, of the contributions of all ranks, in the order in which they are combined.
struct Fold {
  std::vector<Operand> operands;
  Block to;
  std::vector<Departure> passes_on{};
};

struct OwnCopy {
  Block from;
  Block to;
};

// Departures are in the order of a ring, the next rank first: no two ranks begin with the same
// reader. What arrives is passed on the other way round: while its source goes from rank to rank,
// those that forward what they have had of it never write where it does, nor where another does
// (where they are odd in number).
struct StreamProgram {
  Problem problem;
  int rank = 0;
  std::vector<Departure> departures;  // of the input
  std::vector<Arrival> arrivals;      // smallest depth first
  // At most one with contributions of other ranks; these have no hop behind them.
  std::vector<Fold> folds;
  std::vector<OwnCopy> copies;
  int hops = 1;  // of the longest way that a block goes, between whichever ranks
  // In place, too, no block is written before those who read it have it.
  bool may_be_in_place = false;

  // Whether other ranks send contributions here.
  [[nodiscard]] bool is_staged() const;
};

// kUnsupported, saying why, for schedules that streams cannot run as they stand.
Result<StreamProgram> compile_stream(const Schedule& schedule, int rank);

}  // namespace sennit::stream
