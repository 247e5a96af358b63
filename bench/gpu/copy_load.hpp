// A copy through the memory of the current GPU by a kernel that every SM runs.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace sennit_bench {

// `bytes` is a multiple of 16, as the addresses are.
cudaError_t copy_by_all_sms(const void* from, void* to, std::size_t bytes, cudaStream_t stream);

}  // namespace sennit_bench
