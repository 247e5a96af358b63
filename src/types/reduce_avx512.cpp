#define SENNIT_LOOPS avx512
#define SENNIT_LOOPS_TARGET SENNIT_AVX512
#define SENNIT_LOOPS_FUSE true
#include "types/reduce_loops.hpp"  // IWYU pragma: keep: the loops are what it is for
