#include "exec/sm/direct_kernels.cuh"

SENNIT_INSTANTIATE_KERNELS(sennit::Dtype::kFloat8E4m3fn);
SENNIT_INSTANTIATE_KERNELS(sennit::Dtype::kFloat8E5m2);
