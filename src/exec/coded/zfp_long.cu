#define SENNIT_INLINE_ALL
#include "exec/coded/codec_kernel.cuh"

SENNIT_INSTANTIATE_CODEC(ZfpScheme<16>);
SENNIT_INSTANTIATE_CODEC(ZfpScheme<24>);
SENNIT_INSTANTIATE_CODEC(ZfpScheme<32>);
