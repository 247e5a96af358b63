// StreamProgram: what one rank does in a schedule, read off the schedule itself, for copy engines:
// whoever needs a block takes it out of the memory of the rank that has it (direct_get), and nobody
// writes into the memory of others. What is to be reduced is taken into memory of the rank's own
// first, and folded there.
//
//   SENNIT_ASSIGN_OR_RETURN(StreamProgram program, compile_stream(*strand.schedule, rank));
//   engine.run(program, call, stream);   // exec/stream/stream_engine.hpp
//
// The order of lanes is not kept: a part is offered when it lies there, taken when it is offered.
// So what is proved is the loosened schedule (schedule/passes.hpp). A block that is offered is
// written again in the same call only by what its reader sends after having taken it, which is
// checked here, too, since the proof speaks of tiles and here all of them are offered at once.
#pragma once

#include "schedule/schedule.hpp"

#include <vector>

namespace sennit::stream {

inline constexpr int kMaxDepth = 2;

// A block of this rank that `reader` may take.
struct Offer {
  int reader = 0;
  int channel = 0;  // of those from this rank to the reader
  Block block;
};

struct Pull {
  int sender = 0;
  int channel = 0;  // of those from the sender to this rank
  Block from;       // of the sender
  Block to;
  int depth = 0;  // hops before: 0 for blocks of the sender's input
  std::vector<Offer> passes_on{};
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
  std::vector<Offer> passes_on{};
};

struct OwnCopy {
  Block from;
  Block to;
};

struct StreamProgram {
  Problem problem;
  int rank = 0;
  std::vector<Offer> offers;  // of the input
  std::vector<Fold> folds;    // their operands have no hop behind them
  std::vector<Pull> pulls;    // smallest depth first
  std::vector<OwnCopy> copies;
  int hops = 1;  // of the longest way that a block goes, between whichever ranks
  // In place, too, no block is written before those who read it have taken it.
  bool may_be_in_place = false;

  // What leaves again after it has arrived or been folded.
  [[nodiscard]] std::vector<Offer> passed_on() const;
};

// kUnsupported, saying why, for schedules that streams cannot run as they stand.
Result<StreamProgram> compile_stream(const Schedule& schedule, int rank);

}  // namespace sennit::stream
