#include "exec/sm/direct_kernels.cuh"

SENNIT_INSTANTIATE_KERNELS(sennit::Dtype::kComplex64);
SENNIT_INSTANTIATE_KERNELS(sennit::Dtype::kComplex128);
