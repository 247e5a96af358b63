#include "exec/sm/direct_kernels.cuh"

SENNIT_INSTANTIATE_KERNELS(sennit::Dtype::kInt16);
SENNIT_INSTANTIATE_KERNELS(sennit::Dtype::kUint16);
