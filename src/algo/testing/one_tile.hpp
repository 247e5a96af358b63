// For tests: runs one tile of a schedule on symbols, in a random order of execution. It is the
// plain reading of schedule.hpp, a few lines a step, and knows nothing of graphs or proofs.
#pragma once

#include "schedule/schedule.hpp"

#include <map>
#include <set>
#include <string>

namespace sennit::one_tile {

struct Options {
  bool in_place = false;  // on every rank
  int slots = 2;
  unsigned seed = 0;         // of the order in which lanes are tried
  bool commutative = false;  // a + b and b + a count as one expression
};

// The first defect: a dead schedule, a message of the wrong length, a read of what nobody wrote, an
// output block without exactly its contributions, or with another expression than on another rank.
// Empty when the tile came out right.
std::string run(const Schedule& schedule, const Options& options);

// The expression that each output block holds in the end, by rank and block, out of place.
std::map<std::pair<int, int>, std::string> final_values(const Schedule& schedule);

// Messages in the longest chain of steps that wait for one another.
int longest_chain(const Schedule& schedule);

// Whether the last step of each rank comes after the first step of every other in any execution.
bool last_steps_follow_all_first_steps(const Schedule& schedule);

}  // namespace sennit::one_tile
