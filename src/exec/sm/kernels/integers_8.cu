#include "exec/sm/direct_kernels.cuh"

SENNIT_INSTANTIATE_KERNELS(sennit::Dtype::kInt8);
SENNIT_INSTANTIATE_KERNELS(sennit::Dtype::kUint8);
SENNIT_INSTANTIATE_KERNELS(sennit::Dtype::kBool);
