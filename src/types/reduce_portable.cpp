#define SENNIT_LOOPS portable
#define SENNIT_LOOPS_TARGET
#include "types/reduce_loops.hpp"  // IWYU pragma: keep: the loops are what it is for
