// Calls of front ends one by one, with their times, in a file that outlives the process: `sennit
// run
// --trace` reads it.
#pragma once

#include "sennit/sennit.h"

#include <cstddef>
#include <cstdint>

namespace sennit {

struct TracedCall {
  const char* name;
  std::size_t bytes;
  std::uint64_t nanoseconds;  // that it took, until now
  const char* why;            // it was passed on; null: it ran here
  sennit_comm_t comm;         // null: not known
};

// Does nothing unless SENNIT_TRACE_CALLS and SENNIT_COUNTS_DIR are set.
void trace_call(const TracedCall& call);

}  // namespace sennit
