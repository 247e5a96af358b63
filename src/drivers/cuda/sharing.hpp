// Device memory that processes share, for the sources of this driver: by CUDA IPC, or, where that
// does not know the memory, by a file descriptor.
#pragma once

#include "drivers/cuda/cuda.hpp"
#include "drivers/cuda/virtual_memory.hpp"

namespace sennit::cuda {

class Sharing final : public CudaSharing {
 public:
  Result<ExportedMemory> export_memory(void* memory) override;
  Result<void*> import_memory(const MemoryHandle& handle) override;
  Status close_imported(void* memory) override;

 private:
  VirtualMemory virtual_memory_;
};

}  // namespace sennit::cuda
