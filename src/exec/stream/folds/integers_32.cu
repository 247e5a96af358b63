#include "exec/stream/fold_kernel.cuh"

SENNIT_INSTANTIATE_FOLDS(sennit::Dtype::kInt32);
SENNIT_INSTANTIATE_FOLDS(sennit::Dtype::kUint32);
