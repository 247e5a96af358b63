// CudaDriver: the calls of the CUDA runtime that the library makes from the host, and nothing else.
// This is the only folder that spells them; everything above it builds without CUDA.
//
//   Result<CudaDriver*> driver = cuda_driver();         // kUnsupported in a build without CUDA
//   SENNIT_RETURN_IF_ERROR((*driver)->use_device(0));   // of the calling thread, as in CUDA
//   SENNIT_ASSIGN_OR_RETURN(void* memory, (*driver)->allocate(1 << 20));
//
// All functions may be called from any thread. Streams are cudaStream_t as void*.
#pragma once

#include "base/status.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace sennit {

struct CudaDevice {
  int index = 0;
  std::string name;
  std::string pci_bus_id;  // "0000:1b:00.0"
  std::array<std::uint8_t, 16> uuid{};
  std::int64_t memory_bytes = 0;
  int sm_count = 0;
  int compute_capability = 0;  // 90 for sm_90
};

enum class MemoryKind : std::uint8_t { kPageable, kPinned, kDevice, kManaged };

struct PointerFacts {
  MemoryKind kind = MemoryKind::kPageable;
  int device = -1;  // of device and managed memory
};

// Names memory of one process to the others of the same machine.
struct CudaIpcHandle {
  std::array<std::byte, 64> bytes{};
};

// Pinned host memory and where the current device sees it.
struct MappedMemory {
  void* host = nullptr;
  void* device = nullptr;
};

struct LaunchShape {
  unsigned blocks = 1;
  unsigned threads = 1;
  std::size_t shared_bytes = 0;
};

class CudaDriver {
 public:
  virtual ~CudaDriver() = default;

  virtual Result<int> device_count() = 0;
  virtual Result<CudaDevice> describe(int device) = 0;
  virtual Result<int> current_device() = 0;
  virtual Status use_device(int device) = 0;
  // The current device may load and store memory of `peer`; done once or often.
  virtual Status enable_peer(int peer) = 0;

  // Zeroed device memory of the current device.
  virtual Result<void*> allocate(std::size_t bytes) = 0;
  virtual Status release(void* memory) = 0;
  // Zeroed.
  virtual Result<MappedMemory> allocate_mapped(std::size_t bytes) = 0;
  virtual Status release_mapped(const MappedMemory& memory) = 0;
  virtual Result<PointerFacts> facts_of(const void* pointer) = 0;

  virtual Result<CudaIpcHandle> export_memory(void* memory) = 0;
  virtual Result<void*> import_memory(const CudaIpcHandle& handle) = 0;
  virtual Status close_imported(void* memory) = 0;

  // Loads a kernel's code onto the current device: a first launch while a peer spins may never come
  // to run otherwise.
  virtual Status preload(const void* kernel) = 0;
  // `parameters` is the kernel's only parameter, copied before the call returns.
  virtual Status launch(const void* kernel,
                        const LaunchShape& shape,
                        const void* parameters,
                        void* stream) = 0;
  virtual Status copy_async(void* to, const void* from, std::size_t bytes, void* stream) = 0;
  virtual Result<bool> is_capturing(void* stream) = 0;
  virtual Status synchronize(void* stream) = 0;
};

// The driver of this process. kUnsupported, with the reason, where the library was built without
// CUDA or the machine has no usable device.
Result<CudaDriver*> cuda_driver();

// Sets the calling thread's device for a scope and sets it back.
class DeviceScope {
 public:
  DeviceScope(CudaDriver& driver, int device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

  [[nodiscard]] const Status& status() const { return status_; }

 private:
  CudaDriver& driver_;
  int before_ = -1;
  Status status_;
};

}  // namespace sennit
