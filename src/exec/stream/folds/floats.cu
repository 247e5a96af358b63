#include "exec/stream/fold_kernel.cuh"

SENNIT_INSTANTIATE_FOLDS(sennit::Dtype::kFloat32);
SENNIT_INSTANTIATE_FOLDS(sennit::Dtype::kFloat64);
