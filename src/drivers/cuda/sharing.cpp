#include "drivers/cuda/sharing.hpp"

#include "drivers/cuda/driver_calls.hpp"

#include <cuda_runtime.h>

#include <cstring>
#include <utility>

namespace sennit::cuda {

Result<ExportedMemory> Sharing::export_memory(void* memory) {
  ExportedMemory exported;
  cudaIpcMemHandle_t native{};
  const Status by_ipc =
      to_status(cudaIpcGetMemHandle(&native, memory), "exporting device memory to other processes");
  if (!by_ipc.ok()) {
    Result<ExportedMemory> mapped = VirtualMemory::export_memory(memory);
    return mapped.ok() ? std::move(mapped) : Result<ExportedMemory>(by_ipc);
  }
  static_assert(sizeof(native) == sizeof(exported.handle.ipc));
  std::memcpy(exported.handle.ipc.data(), &native, sizeof(native));
  return exported;
}

Result<void*> Sharing::import_memory(const MemoryHandle& handle) {
  const CaptureScope outside;
  SENNIT_RETURN_IF_ERROR(outside.status());
  if (handle.kind == MemoryHandle::Kind::kDescriptor) {
    return virtual_memory_.import_memory(handle);
  }
  cudaIpcMemHandle_t native{};
  std::memcpy(&native, handle.ipc.data(), sizeof(native));
  void* memory = nullptr;
  SENNIT_RETURN_IF_ERROR(
      to_status(cudaIpcOpenMemHandle(&memory, native, cudaIpcMemLazyEnablePeerAccess),
                "opening device memory of another process"));
  return memory;
}

Status Sharing::close_imported(void* memory) {
  const CaptureScope outside;
  SENNIT_RETURN_IF_ERROR(outside.status());
  SENNIT_ASSIGN_OR_RETURN(const bool is_closed, virtual_memory_.close_imported(memory));
  return is_closed
             ? Status()
             : to_status(cudaIpcCloseMemHandle(memory), "closing device memory of another process");
}

}  // namespace sennit::cuda
