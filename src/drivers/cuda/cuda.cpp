#include "drivers/cuda/cuda.hpp"

#include "base/env.hpp"
#include "drivers/cuda/driver_calls.hpp"
#include "drivers/cuda/events.hpp"
#include "drivers/cuda/sharing.hpp"
#include "drivers/cuda/virtual_memory.hpp"

#include <cuda.h>
#include <cuda_runtime.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <random>

namespace sennit {
namespace {

using cuda::CaptureScope;
using cuda::driver_function;
using cuda::to_address;
using cuda::to_status;
using cuda::to_stream;

CUstreamBatchMemOpParams to_operation(const WordStep& step) {
  CUstreamBatchMemOpParams operation{};
  switch (step.kind) {
    case WordStep::Kind::kStore:
      operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
      operation.writeValue.address = to_address(step.word);
      operation.writeValue.value64 = step.value;
      operation.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;  // with a fence before it
      break;
    case WordStep::Kind::kAwait:
      operation.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
      operation.waitValue.address = to_address(step.word);
      operation.waitValue.value64 = step.value;
      operation.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
      break;
  }
  return operation;
}

// Whether contexts on the device are made by the Multi-Process Service. A driver that does not know
// the question has not said so.
bool has_mps(int device) {
  // CU_DEVICE_ATTRIBUTE_MPS_ENABLED, which not every cuda.h of CUDA 12 has.
  constexpr auto kMpsEnabled = static_cast<CUdevice_attribute>(133);
  static const auto kAttribute =
      driver_function<decltype(&cuDeviceGetAttribute)>("cuDeviceGetAttribute");
  int enabled = 0;
  return kAttribute != nullptr && kAttribute(&enabled, kMpsEnabled, device) == CUDA_SUCCESS &&
         enabled != 0;
}

class Runtime final : public CudaDriver {
 public:
  std::uint64_t process() override {
    static const std::uint64_t kToken = [] {
      std::random_device random;
      return (std::uint64_t{random()} << 32) | random();
    }();
    return kToken;
  }

  // CUDA reads the variable when it makes a context, and says nowhere what it took.
  int queues() override {
    constexpr const char* kName = "CUDA_DEVICE_MAX_CONNECTIONS";
    const char* const text = std::getenv(kName);
    const Result<std::int64_t> request =
        parse_integer(kName, text != nullptr ? text : "", {.min = 1, .max = 32});
    return request.ok() ? static_cast<int>(*request) : kDefaultQueues;
  }

  Result<int> device_count() override {
    int count = 0;
    SENNIT_RETURN_IF_ERROR(to_status(cudaGetDeviceCount(&count), "counting CUDA devices"));
    return count;
  }

  Result<CudaDevice> describe(int device) override {
    cudaDeviceProp properties{};
    SENNIT_RETURN_IF_ERROR(
        to_status(cudaGetDeviceProperties(&properties, device), "reading a device's properties"));
    CudaDevice result{.index = device,
                      .name = properties.name,
                      .pci_bus_id = fmt::format("{:04x}:{:02x}:{:02x}.0",
                                                properties.pciDomainID,
                                                properties.pciBusID,
                                                properties.pciDeviceID),
                      .memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem),
                      .sm_count = properties.multiProcessorCount,
                      .compute_capability = properties.major * 10 + properties.minor,
                      .has_mps = has_mps(device)};
    std::memcpy(result.uuid.data(), properties.uuid.bytes, result.uuid.size());
    return result;
  }

  Result<int> current_device() override {
    int device = 0;
    SENNIT_RETURN_IF_ERROR(to_status(cudaGetDevice(&device), "asking for the current device"));
    return device;
  }

  Status use_device(int device) override {
    return to_status(cudaSetDevice(device), fmt::format("choosing device {}", device));
  }

  Result<bool> reaches_peer(int peer) override {
    SENNIT_ASSIGN_OR_RETURN(const int device, current_device());
    int reaches = 0;
    SENNIT_RETURN_IF_ERROR(to_status(cudaDeviceCanAccessPeer(&reaches, device, peer),
                                     fmt::format("asking for the wires to device {}", peer)));
    return reaches != 0;
  }

  Status enable_peer(int peer) override {
    const cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled) {
      (void)cudaGetLastError();
      return {};
    }
    return to_status(error, fmt::format("opening the memory of device {} to this one", peer));
  }

  Result<void*> allocate(std::size_t bytes) override {
    const CaptureScope outside;
    SENNIT_RETURN_IF_ERROR(outside.status());
    void* memory = nullptr;
    SENNIT_RETURN_IF_ERROR(to_status(cudaMalloc(&memory, bytes),
                                     fmt::format("allocating {} bytes on the device", bytes)));
    if (Status cleared = clear(memory, bytes); !cleared.ok()) {
      (void)cudaFree(memory);
      return cleared;
    }
    return memory;
  }

  Status release(void* memory) override {
    const CaptureScope outside;
    SENNIT_RETURN_IF_ERROR(outside.status());
    return to_status(cudaFree(memory), "freeing device memory");
  }

  Result<MappedMemory> allocate_mapped(std::size_t bytes) override {
    const CaptureScope outside;
    SENNIT_RETURN_IF_ERROR(outside.status());
    MappedMemory memory;
    SENNIT_RETURN_IF_ERROR(
        to_status(cudaHostAlloc(&memory.host, bytes, cudaHostAllocMapped | cudaHostAllocPortable),
                  fmt::format("pinning {} bytes of host memory", bytes)));
    std::memset(memory.host, 0, bytes);
    const cudaError_t error = cudaHostGetDevicePointer(&memory.device, memory.host, 0);
    if (error != cudaSuccess) {
      (void)cudaFreeHost(memory.host);
      return to_status(error, "mapping host memory");
    }
    return memory;
  }

  Status release_mapped(const MappedMemory& memory) override {
    const CaptureScope outside;
    SENNIT_RETURN_IF_ERROR(outside.status());
    return to_status(cudaFreeHost(memory.host), "freeing pinned host memory");
  }

  Result<void*> map_host(void* memory, std::size_t bytes) override {
    const CaptureScope outside;
    SENNIT_RETURN_IF_ERROR(outside.status());
    SENNIT_RETURN_IF_ERROR(to_status(
        cudaHostRegister(memory, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable),
        fmt::format("pinning {} bytes of shared memory", bytes)));
    void* device = nullptr;
    const cudaError_t error = cudaHostGetDevicePointer(&device, memory, 0);
    if (error != cudaSuccess) {
      (void)cudaHostUnregister(memory);
      return to_status(error, "mapping shared memory");
    }
    return device;
  }

  Status unmap_host(void* memory) override {
    const CaptureScope outside;
    SENNIT_RETURN_IF_ERROR(outside.status());
    return to_status(cudaHostUnregister(memory), "giving pinned shared memory back");
  }

  Result<PointerFacts> facts_of(const void* pointer) override {
    cudaPointerAttributes attributes{};
    SENNIT_RETURN_IF_ERROR(to_status(cudaPointerGetAttributes(&attributes, pointer),
                                     "asking what a pointer points to"));
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
    return fail(Code::kInternalError, "CUDA reported a kind of memory that did not exist");
  }

  Result<Allocation> allocation_of(const void* pointer) override {
    static const auto kAttributes =
        driver_function<decltype(&cuPointerGetAttributes)>("cuPointerGetAttributes");
    if (kAttributes == nullptr) {
      return fail(Code::kUnsupported, "the CUDA driver does not report allocations");
    }
    std::array attributes = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                             CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                             CU_POINTER_ATTRIBUTE_BUFFER_ID,
                             CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                             CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE};
    CUdeviceptr base = 0;
    std::size_t bytes = 0;
    unsigned long long id = 0;
    int device = -1;
    // The documentation calls it a boolean and does not say how wide: room for all.
    unsigned long long can_be_exported = 0;
    std::array<void*, attributes.size()> values = {&base, &bytes, &id, &device, &can_be_exported};
    SENNIT_RETURN_IF_ERROR(to_status(
        kAttributes(attributes.size(), attributes.data(), values.data(), to_address(pointer)),
        "asking for the allocation of a pointer"));
    if (can_be_exported == 0) {
      // Of mapped memory, the above gives the reserved range.
      if (Result<Allocation> mapped = cuda::VirtualMemory::allocation_of(pointer); mapped.ok()) {
        return mapped;
      }
    }
    return Allocation{.base = reinterpret_cast<std::byte*>(base),
                      .bytes = bytes,
                      .id = id,
                      .device = device,
                      .can_be_exported = can_be_exported != 0};
  }

  CudaSharing& sharing() override { return sharing_; }
  CudaEvents& events() override { return events_; }

  // From now on no kernel begins before what is before it in its stream has ended.
  void launch_in_turn() { comes_early_ = false; }

  Status preload(const void* kernel) override {
    cudaFuncAttributes attributes{};
    SENNIT_RETURN_IF_ERROR(
        to_status(cudaFuncGetAttributes(&attributes, kernel), "loading a kernel"));
    if (attributes.ptxVersion < kLeastPtxThatWaits) {
      launch_in_turn();
    }
    return {};
  }

  Status launch(const void* kernel,
                const LaunchShape& shape,
                const void* parameters,
                void* stream) override {
    void* arguments[] = {const_cast<void*>(parameters)};
    cudaLaunchAttribute early{};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(shape.blocks);
    config.blockDim = dim3(shape.threads);
    config.dynamicSmemBytes = shape.shared_bytes;
    config.stream = to_stream(stream);
    config.attrs = &early;
    config.numAttrs = comes_early_ ? 1 : 0;
    return to_status(cudaLaunchKernelExC(&config, kernel, arguments), "launching a kernel");
  }

  Status copy_async(void* to, const void* from, std::size_t bytes, void* stream) override {
    return to_status(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, to_stream(stream)),
                     "copying memory");
  }

  Result<void*> create_stream() override {
    cudaStream_t stream = nullptr;
    SENNIT_RETURN_IF_ERROR(
        to_status(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream"));
    return static_cast<void*>(stream);
  }

  Status destroy_stream(void* stream) override {
    return to_status(cudaStreamDestroy(to_stream(stream)), "destroying a stream");
  }

  Result<std::uint64_t> stream_id(void* stream) override {
    const CaptureScope outside;
    SENNIT_RETURN_IF_ERROR(outside.status());
    unsigned long long id = 0;
    SENNIT_RETURN_IF_ERROR(
        to_status(cudaStreamGetId(to_stream(stream), &id), "asking for a stream"));
    return std::uint64_t{id};
  }

  Status walk_words(std::span<const WordStep> steps, void* stream) override {
    static const auto kBatch = driver_function<decltype(&cuStreamBatchMemOp)>("cuStreamBatchMemOp");
    if (kBatch == nullptr) {
      return fail(Code::kUnsupported, "the CUDA driver has no memory operations for streams");
    }
    if (steps.size() > kMaxWordSteps) {
      return fail(Code::kInternalError, "a stream was given {} word steps at once", steps.size());
    }
    std::array<CUstreamBatchMemOpParams, kMaxWordSteps> operations{};
    for (std::size_t i = 0; i < steps.size(); ++i) {
      operations[i] = to_operation(steps[i]);
    }
    return to_status(
        kBatch(to_stream(stream), static_cast<unsigned>(steps.size()), operations.data(), 0),
        "putting memory operations into a stream");
  }

  Result<bool> is_capturing(void* stream) override {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    SENNIT_RETURN_IF_ERROR(
        to_status(cudaStreamIsCapturing(to_stream(stream), &capture), "asking what a stream does"));
    return capture != cudaStreamCaptureStatusNone;
  }

  Status synchronize(void* stream) override {
    return to_status(cudaStreamSynchronize(to_stream(stream)), "waiting for a stream");
  }

 private:
  // By a stream of its own: kernels in others may wait for what this thread does next.
  Status clear(void* memory, std::size_t bytes) {
    SENNIT_ASSIGN_OR_RETURN(void* const stream, create_stream());
    Status status =
        to_status(cudaMemsetAsync(memory, 0, bytes, to_stream(stream)), "clearing device memory");
    if (status.ok()) {
      status = synchronize(stream);
    }
    const Status destroyed = destroy_stream(stream);
    return status.ok() ? destroyed : status;
  }

  // Before it, a capture takes no such launch.
  static constexpr int kLeastDriverOfEarlyLaunches = 12030;
  // Code for less has no instruction to wait with, on whatever device it runs.
  static constexpr int kLeastPtxThatWaits = 90;

  static bool takes_early_launches() {
    int version = 0;
    return cudaDriverGetVersion(&version) == cudaSuccess && version >= kLeastDriverOfEarlyLaunches;
  }

  cuda::Sharing sharing_;
  cuda::Events events_;
  std::atomic<bool> comes_early_{takes_early_launches()};
};

}  // namespace

bool is_built_with_cuda() { return true; }

Result<CudaDriver*> cuda_driver() {
  static Runtime runtime;
  const Result<int> count = runtime.device_count();
  if (!count.ok()) {
    return fail(Code::kUnsupported, "CUDA cannot be used here: {}", count.status().message());
  }
  if (count.value() == 0) {
    return fail(Code::kUnsupported, "CUDA finds no device on this machine");
  }
  SENNIT_ASSIGN_OR_RETURN(const std::int64_t early, env_integer("SENNIT_EARLY_LAUNCHES", {0, 1}));
  if (early == 0) {
    runtime.launch_in_turn();
  }
  return &runtime;
}

}  // namespace sennit
