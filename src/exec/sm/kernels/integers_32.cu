#include "exec/sm/direct_kernels.cuh"

SENNIT_INSTANTIATE_KERNELS(sennit::Dtype::kInt32);
SENNIT_INSTANTIATE_KERNELS(sennit::Dtype::kUint32);
