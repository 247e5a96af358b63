#include "exec/stream/reduction_kernel.cuh"

SENNIT_INSTANTIATE_REDUCTIONS(sennit::Dtype::kFloat32);
SENNIT_INSTANTIATE_REDUCTIONS(sennit::Dtype::kFloat64);
