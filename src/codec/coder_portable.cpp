#define SENNIT_INLINE_ALL
#define SENNIT_CODER portable
#include "codec/coder_loops.hpp"  // IWYU pragma: keep: the loops are what it is for
