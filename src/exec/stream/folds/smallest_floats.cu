#include "exec/stream/fold_kernel.cuh"

SENNIT_INSTANTIATE_FOLDS(sennit::Dtype::kFloat8E4m3fn);
SENNIT_INSTANTIATE_FOLDS(sennit::Dtype::kFloat8E5m2);
