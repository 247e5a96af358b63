#include "exec/stream/fold_kernel.cuh"

SENNIT_INSTANTIATE_FOLDS(sennit::Dtype::kFloat16);
SENNIT_INSTANTIATE_FOLDS(sennit::Dtype::kBfloat16);
