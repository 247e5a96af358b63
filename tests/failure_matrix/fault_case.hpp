// One case of the failure matrix: ranks as processes make one call, and one of them ends or stops
// itself at one moment of it (SENNIT_TEST_DIE_AT). What the others must then do is docs/errors.md.
#pragma once

#include "failure_matrix/subject.hpp"

#include <string>
#include <vector>

namespace sennit::tests {

enum class Fault {
  kNone,
  kKill,
  kStop,        // for good: the others reach their deadline
  kStopAndGoOn  // for a moment
};

struct FaultCase {
  Subject subject;
  Fault fault = Fault::kNone;
  int victim = 0;
  int moment = 0;  // in half steps of the victim

  [[nodiscard]] std::string name() const;
};

struct CaseResult {
  // The moment came: the victim died or stopped. Otherwise it lies behind the end of its call.
  bool struck = false;
  // The protocol is not to be had here, or not with this algorithm; known of Fault::kNone only.
  bool refused = false;
  // What was not as promised; empty when all was.
  std::vector<std::string> complaints;
  // Of each survivor: from the victim's call (of a stop: its own) to its own error.
  std::vector<double> seconds;
};

// Forks the ranks, waits for their ends, and judges. Leaves no child.
CaseResult run(const FaultCase& fault_case);

}  // namespace sennit::tests
