// The checks of a proof, one switch each. The tests switch them off one at a time to show that each
// of them is what catches its kind of defect; everybody else calls verify().
#pragma once

#include "verify/verify.hpp"

namespace sennit {

struct Checks {
  bool live = true;           // without an order of the steps, nothing else is looked at
  bool protocols = true;      // both ends of a channel can do what its protocol asks of them
  bool races = true;          // accesses of one tile
  bool overlaps = true;       // a step's `to` overlaps what it reads at another place of its lists
  bool scratch_reuse = true;  // accesses of two tiles that share a scratch instance
  bool lengths = true;        // message, `from` and `to` have equally many blocks
  bool initialised = true;    // what is read was written
  bool contributions = true;  // each contribution exactly once, where it belongs
  bool equal_trees = true;    // one expression tree on all ranks
  bool scaling = true;        // pre and post exactly once
  bool coding = true;         // what lossy codecs change is changed once, on all ranks
  bool known_lengths = true;  // where blocks differ in length, they hold what they are named for
  bool skips = true;          // where lengths vary, messages that may be missing order nothing
  bool same_on_all_paths = true;  // what a bundle carries does not depend on the path
  bool equal_strands = true;      // strands that are claimed at run time compute the same trees
  bool single_hop = true;         // what is marked so goes straight from owner to final place
};

Result<Proof> verify_with(const Plan& plan, const Checks& checks);

}  // namespace sennit
