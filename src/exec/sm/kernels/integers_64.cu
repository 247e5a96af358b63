#include "exec/sm/direct_kernels.cuh"

SENNIT_INSTANTIATE_KERNELS(sennit::Dtype::kInt64);
SENNIT_INSTANTIATE_KERNELS(sennit::Dtype::kUint64);
