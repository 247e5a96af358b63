#include "exec/stream/fold_kernel.cuh"

SENNIT_INSTANTIATE_FOLDS(sennit::Dtype::kComplex64);
SENNIT_INSTANTIATE_FOLDS(sennit::Dtype::kComplex128);
