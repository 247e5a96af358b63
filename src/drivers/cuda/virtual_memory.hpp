// Memory of CUDA's virtual memory management: allocations without an address of their own
// (cuMemCreate) that a program maps where it likes (cuMemMap), as ncclMemAlloc and PyTorch's
// expandable segments do. CUDA IPC does not share them; a file descriptor does.
#pragma once

#include "drivers/cuda/cuda.hpp"

#include <cstddef>
#include <map>
#include <mutex>

namespace sennit::cuda {

class VirtualMemory {
 public:
  // What is mapped at the pointer: one allocation, though others may lie next to it in the
  // addresses that were reserved. kUnsupported where none is, or where it was not made to be shared
  // by a descriptor.
  static Result<Allocation> allocation_of(const void* pointer);
  static Result<ExportedMemory> export_memory(const void* pointer);

  // `handle.descriptor` belongs to this process and stays the caller's.
  Result<void*> import_memory(const MemoryHandle& handle);
  // False: it was not imported here.
  Result<bool> close_imported(void* memory);

 private:
  std::mutex mutex_;
  std::map<void*, std::size_t> imported_;  // bytes, by address
};

}  // namespace sennit::cuda
