#include "exec/stream/reduction_kernel.cuh"

SENNIT_INSTANTIATE_REDUCTIONS(sennit::Dtype::kFloat8E4m3fn);
SENNIT_INSTANTIATE_REDUCTIONS(sennit::Dtype::kFloat8E5m2);
