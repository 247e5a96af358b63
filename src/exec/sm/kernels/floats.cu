#include "exec/sm/direct_kernels.cuh"

SENNIT_INSTANTIATE_KERNELS(sennit::Dtype::kFloat32);
SENNIT_INSTANTIATE_KERNELS(sennit::Dtype::kFloat64);
