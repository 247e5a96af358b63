#define SENNIT_INLINE_ALL
#include "exec/coded/codec_kernel.cuh"

SENNIT_INSTANTIATE_CODEC(ZfpScheme<4>);
SENNIT_INSTANTIATE_CODEC(ZfpScheme<8>);
