// The kernel that copies stretches of this device's memory: what stays on a rank while copy engines
// move the rest, or all copies of a leader at once, as each launch takes microseconds. No copy
// reads or writes what another one writes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace sennit::stream {

// The kernel's parameter.
struct CopiesCall {
  struct Copy {
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::int64_t bytes = 0;
  };

  std::array<Copy, 64> copies{};
  std::int32_t count = 0;
};

// As CudaDriver::launch takes it, with kReductionThreads threads; null in a build without CUDA.
const void* copies_kernel();

}  // namespace sennit::stream
