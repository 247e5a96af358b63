#define SENNIT_INLINE_ALL
#include "exec/coded/codec_kernel.cuh"

SENNIT_INSTANTIATE_CODEC(IntegerScheme<std::int8_t>);
SENNIT_INSTANTIATE_CODEC(IntegerScheme<std::int16_t>);
SENNIT_INSTANTIATE_CODEC(FloatScheme);
