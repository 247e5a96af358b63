#include "exec/stream/reduction_kernel.cuh"

SENNIT_INSTANTIATE_REDUCTIONS(sennit::Dtype::kInt8);
SENNIT_INSTANTIATE_REDUCTIONS(sennit::Dtype::kUint8);
SENNIT_INSTANTIATE_REDUCTIONS(sennit::Dtype::kBool);
