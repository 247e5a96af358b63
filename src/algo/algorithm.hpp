// Algorithm: one row of the table of algorithms. A row is a pure function from shape to schedule
// and what is claimed of it; verifier, simulator, executors, bench and documentation read the
// table. To add one: docs/adding/algorithm.md.
#pragma once

#include "schedule/schedule.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sennit {

struct Algorithm {
  Collective collective;
  std::string_view name;
  std::string_view summary;  // one line for people
  std::string_view source;   // paper or textbook of the idea

  // The schedule before fusion. Called only for shapes that `refuses` accepts.
  Schedule (*build)(const Shape& shape);

  // Why the algorithm cannot run this shape as named; empty when it can.
  std::string_view (*refuses)(const Shape& shape);

  // Closed forms, written independently of `build`; the verifier compares.
  // Blocks that rank `from` sends to rank `to` for one tile (blocks of the schedule's cut).
  std::int64_t (*blocks_on_link)(const Shape& shape, int from, int to);

  // Messages in the longest dependent chain of one tile (rounds of the algorithm).
  std::int64_t (*rounds)(const Shape& shape);

  // Proved in place as well, for every shape. Otherwise a rank that is in place may have to work on
  // a copy of its input.
  bool in_place;

  // Which other parts of the shape it looks at.
  bool takes_radix = false;
  bool takes_groups = false;

  // Of a schedule that a program has brought (algo/given_schedules.hpp): all there is of it. The
  // functions above are null then.
  const Schedule* given = nullptr;
};

// The rows of one collective; the first is the default where nothing better is known.
std::span<const Algorithm> algorithms(Collective collective);

// The row with this name, be it of the table or of a schedule that a program has brought; a failure
// lists the names of the table.
Result<const Algorithm*> find_algorithm(Collective collective, std::string_view name);

// Why the algorithm cannot run this shape; empty when it can.
std::string refusal_of(const Algorithm& algorithm, const Shape& shape);

// The fused schedule of `algorithm` for `shape` (a given one as it is), or why it is refused by
// name (kUnsupported) or is none (kNotProved). Rows know nothing of lengths: where they vary, the
// schedule is refused if a rank would handle a block whose length it cannot know.
Result<Schedule> make_schedule(const Algorithm& algorithm, const Shape& shape);

inline std::string_view refuses_nothing(const Shape&) { return {}; }

}  // namespace sennit
