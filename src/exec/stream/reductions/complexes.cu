#include "exec/stream/reduction_kernel.cuh"

SENNIT_INSTANTIATE_REDUCTIONS(sennit::Dtype::kComplex64);
SENNIT_INSTANTIATE_REDUCTIONS(sennit::Dtype::kComplex128);
