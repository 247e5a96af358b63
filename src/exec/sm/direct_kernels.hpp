// The kernels of the direct family, as CudaDriver::launch takes them.
#pragma once

#include "exec/sm/arena.hpp"
#include "types/tables.hpp"

namespace sennit::sm {

// What moves data alone.
const void* moving_kernel(Packets packets);
// What runs sends and recvs (PairCalls).
const void* pairs_kernel(Packets packets);
// What reduces elements of `dtype` by `op`; null for pairs that do not exist.
const void* reducing_kernel(Packets packets, Dtype dtype, ReduceOp op);

}  // namespace sennit::sm
