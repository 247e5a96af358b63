#include "drivers/cuda/cuda.hpp"

#include <cuda_runtime.h>

#include <cstring>

namespace sennit {
namespace {

// A failure is also kept by the runtime for the next one who asks; it is told here, so it is taken.
Status told(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) {
    return {};
  }
  (void)cudaGetLastError();
  return fail(Code::kSystemError,
              "{} failed: {} ({})",
              what,
              cudaGetErrorString(error),
              cudaGetErrorName(error));
}

cudaStream_t to_stream(void* stream) { return static_cast<cudaStream_t>(stream); }

class Runtime final : public CudaDriver {
 public:
  Result<int> device_count() override {
    int count = 0;
    SENNIT_RETURN_IF_ERROR(told(cudaGetDeviceCount(&count), "counting CUDA devices"));
    return count;
  }

  Result<CudaDevice> describe(int device) override {
    cudaDeviceProp properties{};
    SENNIT_RETURN_IF_ERROR(
        told(cudaGetDeviceProperties(&properties, device), "reading a device's properties"));
    CudaDevice result{.index = device,
                      .name = properties.name,
                      .pci_bus_id = fmt::format("{:04x}:{:02x}:{:02x}.0",
                                                properties.pciDomainID,
                                                properties.pciBusID,
                                                properties.pciDeviceID),
                      .memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem),
                      .sm_count = properties.multiProcessorCount,
                      .compute_capability = properties.major * 10 + properties.minor};
    std::memcpy(result.uuid.data(), properties.uuid.bytes, result.uuid.size());
    return result;
  }

  Result<int> current_device() override {
    int device = 0;
    SENNIT_RETURN_IF_ERROR(told(cudaGetDevice(&device), "asking for the current device"));
    return device;
  }

  Status use_device(int device) override {
    return told(cudaSetDevice(device), fmt::format("choosing device {}", device));
  }

  Status enable_peer(int peer) override {
    const cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled) {
      (void)cudaGetLastError();
      return {};
    }
    return told(error, fmt::format("opening the memory of device {} to this one", peer));
  }

  Result<void*> allocate(std::size_t bytes) override {
    void* memory = nullptr;
    SENNIT_RETURN_IF_ERROR(
        told(cudaMalloc(&memory, bytes), fmt::format("allocating {} bytes on the device", bytes)));
    SENNIT_RETURN_IF_ERROR(told(cudaMemset(memory, 0, bytes), "clearing device memory"));
    SENNIT_RETURN_IF_ERROR(told(cudaDeviceSynchronize(), "clearing device memory"));
    return memory;
  }

  Status release(void* memory) override { return told(cudaFree(memory), "freeing device memory"); }

  Result<MappedMemory> allocate_mapped(std::size_t bytes) override {
    MappedMemory memory;
    SENNIT_RETURN_IF_ERROR(
        told(cudaHostAlloc(&memory.host, bytes, cudaHostAllocMapped | cudaHostAllocPortable),
             fmt::format("pinning {} bytes of host memory", bytes)));
    std::memset(memory.host, 0, bytes);
    SENNIT_RETURN_IF_ERROR(
        told(cudaHostGetDevicePointer(&memory.device, memory.host, 0), "mapping host memory"));
    return memory;
  }

  Status release_mapped(const MappedMemory& memory) override {
    return told(cudaFreeHost(memory.host), "freeing pinned host memory");
  }

  Result<PointerFacts> facts_of(const void* pointer) override {
    cudaPointerAttributes attributes{};
    SENNIT_RETURN_IF_ERROR(
        told(cudaPointerGetAttributes(&attributes, pointer), "asking what a pointer points to"));
    switch (attributes.type) {
      case cudaMemoryTypeUnregistered:
        return PointerFacts{MemoryKind::kPageable, -1};
      case cudaMemoryTypeHost:
        return PointerFacts{MemoryKind::kPinned, -1};
      case cudaMemoryTypeDevice:
        return PointerFacts{MemoryKind::kDevice, attributes.device};
      case cudaMemoryTypeManaged:
        return PointerFacts{MemoryKind::kManaged, attributes.device};
    }
    return fail(Code::kInternalError, "CUDA told of a kind of memory that did not exist");
  }

  Result<CudaIpcHandle> export_memory(void* memory) override {
    cudaIpcMemHandle_t native{};
    SENNIT_RETURN_IF_ERROR(
        told(cudaIpcGetMemHandle(&native, memory), "exporting device memory to other processes"));
    CudaIpcHandle handle;
    static_assert(sizeof(native) == sizeof(handle.bytes));
    std::memcpy(handle.bytes.data(), &native, sizeof(native));
    return handle;
  }

  Result<void*> import_memory(const CudaIpcHandle& handle) override {
    cudaIpcMemHandle_t native{};
    std::memcpy(&native, handle.bytes.data(), sizeof(native));
    void* memory = nullptr;
    SENNIT_RETURN_IF_ERROR(
        told(cudaIpcOpenMemHandle(&memory, native, cudaIpcMemLazyEnablePeerAccess),
             "opening device memory of another process"));
    return memory;
  }

  Status close_imported(void* memory) override {
    return told(cudaIpcCloseMemHandle(memory), "closing device memory of another process");
  }

  Status preload(const void* kernel) override {
    cudaFuncAttributes attributes{};
    return told(cudaFuncGetAttributes(&attributes, kernel), "loading a kernel");
  }

  Status launch(const void* kernel,
                const LaunchShape& shape,
                const void* parameters,
                void* stream) override {
    void* arguments[] = {const_cast<void*>(parameters)};
    return told(cudaLaunchKernel(kernel,
                                 dim3(shape.blocks),
                                 dim3(shape.threads),
                                 arguments,
                                 shape.shared_bytes,
                                 to_stream(stream)),
                "launching a kernel");
  }

  Status copy_async(void* to, const void* from, std::size_t bytes, void* stream) override {
    return told(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, to_stream(stream)),
                "copying memory");
  }

  Result<bool> is_capturing(void* stream) override {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    SENNIT_RETURN_IF_ERROR(
        told(cudaStreamIsCapturing(to_stream(stream), &capture), "asking what a stream does"));
    return capture != cudaStreamCaptureStatusNone;
  }

  Status synchronize(void* stream) override {
    return told(cudaStreamSynchronize(to_stream(stream)), "waiting for a stream");
  }
};

}  // namespace

Result<CudaDriver*> cuda_driver() {
  static Runtime runtime;
  const Result<int> count = runtime.device_count();
  if (!count.ok()) {
    return fail(Code::kUnsupported, "CUDA cannot be used here: {}", count.status().message());
  }
  if (count.value() == 0) {
    return fail(Code::kUnsupported, "CUDA finds no device on this machine");
  }
  return &runtime;
}

}  // namespace sennit
