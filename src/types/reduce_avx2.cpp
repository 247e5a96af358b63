#define SENNIT_LOOPS avx2
#define SENNIT_LOOPS_TARGET SENNIT_AVX2
#include "types/reduce_loops.hpp"
