#include "exec/sm/direct_kernels.cuh"

SENNIT_INSTANTIATE_KERNELS(sennit::Dtype::kFloat16);
SENNIT_INSTANTIATE_KERNELS(sennit::Dtype::kBfloat16);
