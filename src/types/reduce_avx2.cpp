#define SENNIT_LOOPS avx2
#define SENNIT_LOOPS_TARGET SENNIT_AVX2
#define SENNIT_LOOPS_FUSE false
#include "types/reduce_loops.hpp"  // IWYU pragma: keep: the loops are what it is for
