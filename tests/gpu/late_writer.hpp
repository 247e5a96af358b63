// For tests: work in a stream that lets what is behind it begin long before it has written
// anything.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace sennit::tests {

// Copies between two buffers of the device, after a while.
cudaError_t copy_late(std::byte* to, const std::byte* from, std::size_t bytes, cudaStream_t stream);

}  // namespace sennit::tests
