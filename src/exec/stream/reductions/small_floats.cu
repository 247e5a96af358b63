#include "exec/stream/reduction_kernel.cuh"

SENNIT_INSTANTIATE_REDUCTIONS(sennit::Dtype::kFloat16);
SENNIT_INSTANTIATE_REDUCTIONS(sennit::Dtype::kBfloat16);
