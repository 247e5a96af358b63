#include "exec/stream/reduction_kernel.cuh"

SENNIT_INSTANTIATE_REDUCTIONS(sennit::Dtype::kInt16);
SENNIT_INSTANTIATE_REDUCTIONS(sennit::Dtype::kUint16);
