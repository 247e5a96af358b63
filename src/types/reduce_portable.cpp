#define SENNIT_LOOPS portable
#define SENNIT_LOOPS_TARGET
#include "types/reduce_loops.hpp"
