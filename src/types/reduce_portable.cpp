#define SENNIT_LOOPS portable
#define SENNIT_LOOPS_TARGET
#define SENNIT_LOOPS_FUSE false
#include "types/reduce_loops.hpp"  // IWYU pragma: keep: the loops are what it is for
