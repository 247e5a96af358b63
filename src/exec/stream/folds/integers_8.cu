#include "exec/stream/fold_kernel.cuh"

SENNIT_INSTANTIATE_FOLDS(sennit::Dtype::kInt8);
SENNIT_INSTANTIATE_FOLDS(sennit::Dtype::kUint8);
SENNIT_INSTANTIATE_FOLDS(sennit::Dtype::kBool);
